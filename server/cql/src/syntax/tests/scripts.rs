//! Texts of many statements.

use crate::syntax::Script;

fn cut(text: &str) -> Vec<&str> {
    let statements = Script::new(text).map(|statement| statement.unwrap());
    statements.map(|statement| statement.text).collect()
}

#[test]
fn semicolons_inside_of_tokens_and_comments_do_not_cut() {
    let text = "a ';' b \";\" c $$;$$ d /* ; */ e -- ;\n f; // ;\n g ; ; ";
    assert_eq!(
        cut(text),
        ["a ';' b \";\" c $$;$$ d /* ; */ e -- ;\n f", "g"]
    );
}

#[test]
fn a_batch_is_one_statement() {
    let batch = "BEGIN UNLOGGED BATCH INSERT INTO t (a) VALUES (1); \
                 DELETE FROM t WHERE a = 1; APPLY BATCH";
    let text = format!("USE ks; {batch}; USE other");
    assert_eq!(cut(&text), ["USE ks", batch, "USE other"]);
}

#[test]
fn an_open_string_ends_the_script_with_an_error_that_names_the_place() {
    let mut script = Script::new("USE ks;\nSELECT 'a");
    assert_eq!(script.next().unwrap().unwrap().text, "USE ks");
    let error = script.next().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2:9 mismatched character '<EOF>' expecting '''"
    );
    assert_eq!(script.next(), None);
}

#[test]
fn a_statement_says_where_it_was_and_whether_it_ended() {
    let statements: Vec<_> = Script::new("é; \n USE ks").collect();
    assert!(statements[0].is_err());
    let text = "USE a;\n USE b";
    let statements: Vec<_> = Script::new(text).map(Result::unwrap).collect();
    let places: Vec<_> = statements.iter().map(|s| (s.offset, s.closed)).collect();
    assert_eq!(places, [(0, true), (8, false)]);
}
