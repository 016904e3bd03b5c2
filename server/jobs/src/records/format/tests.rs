use super::*;
use crate::records::Columns;
use crate::records::csv::record;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

fn csv(columns: &[&str]) -> RecordFormat {
    RecordFormat::file(ValueFormat::csv(Some(&names(columns))).unwrap())
}

fn read(format: &RecordFormat, names: &[&str], value: &str) -> Vec<Option<String>> {
    let columns = Columns::new(format, names).unwrap();
    let text = |field: &[u8]| String::from_utf8(field.to_vec()).unwrap();
    let read = columns.read(b"k", value.as_bytes(), |fields| {
        Ok(fields.iter().map(|field| field.map(text)).collect())
    });
    read.unwrap()
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some(text.to_string())).collect()
}

#[test]
fn csv_columns_go_by_name_and_by_number_and_key_and_value_are_columns() {
    let format = csv(&["id", "name", "2"]);
    assert_eq!(
        read(&format, &["name", "1", "2"], "7,\"a,b\",x"),
        some(&["a,b", "7", "x"])
    );
    assert_eq!(
        read(&format, &["key", "value", "3"], "7,8,9"),
        some(&["k", "7,8,9", "9"])
    );
    assert_eq!(
        read(&csv(&["value", "key"]), &["key", "value"], "7,8"),
        some(&["8", "7"])
    );
    let unnamed = RecordFormat::file(ValueFormat::UnnamedCsv);
    assert_eq!(read(&unnamed, &["2", "key"], "7,8"), some(&["8", "k"]));
    let error =
        |format: &RecordFormat, name| Columns::new(format, &[name]).unwrap_err().to_string();
    assert!(error(&format, "nmae").contains("id, name, 2, key, value"));
    assert!(error(&format, "4").contains("id, name"));
    assert!(error(&unnamed, "name").contains("no names"));
    assert!(error(&unnamed, "0").contains("no names"));
    assert!(error(&RecordFormat::text(), "a").contains("plain text"));
    assert_eq!(
        read(&RecordFormat::text(), &["value", "key"], "a b"),
        some(&["a b", "k"])
    );
}

#[test]
fn json_columns_are_members_of_members() {
    let value = r#"{"a":{"b":"x y","c":[1,2]},"d":1.50,"e":null,"key":7,"value":{"a":8}}"#;
    let lines = RecordFormat::file(ValueFormat::Json);
    assert_eq!(
        read(&lines, &["a.b", "a.c", "d", "key", "value.a"], value),
        some(&["x y", "[1,2]", "1.50", "7", "8"])
    );
    assert_eq!(read(&lines, &["e", "f", "d.x"], value), [None, None, None]);
    // In a table `key` is the key of the row, and a member of that name has a longer name.
    let table = RecordFormat::table(ValueFormat::Json).unwrap();
    assert_eq!(
        read(
            &table,
            &["key", "value.key", "value", "d", "value.d"],
            value
        ),
        some(&["k", "7", value, "1.50", "1.50"])
    );
}

/// Regression: jobs wrote columns such as `user.id` and `ms_p99.9` into JSON lines, and no job
/// could read these columns.
#[test]
fn a_member_whose_name_has_a_dot_is_the_column_of_that_name() {
    let value = r#"{"user":{"id":1,"at":2},"user.id":3,"ms_p99.9":4,"value.x":5,"x":6}"#;
    let names = ["user.id", "user.at", "ms_p99.9"];
    let lines = RecordFormat::file(ValueFormat::Json);
    assert_eq!(read(&lines, &names, value), some(&["3", "2", "4"]));
    assert_eq!(read(&lines, &["value.x"], value), some(&["5"]));
    let table = RecordFormat::table(ValueFormat::Json).unwrap();
    assert_eq!(read(&table, &names, value), some(&["3", "2", "4"]));
    assert_eq!(
        read(&table, &["value.x", "value.value.x"], value),
        some(&["6", "5"])
    );
    // Neither the order of the members nor a null changes which one counts.
    let null = r#"{"user.id":null,"user":{"id":1}}"#;
    assert_eq!(read(&lines, &["user.id"], null), [None]);
}

#[test]
fn rows_of_several_columns_in_key_and_value_come_apart() {
    let column = |name: &&str| Column::text(*name);
    let format = RecordFormat::rows(
        ["a", "b"].iter().map(column).collect(),
        ["rows", "a"].iter().map(column).collect(),
    );
    let all: Vec<String> = format
        .columns()
        .into_iter()
        .map(|column| column.name)
        .collect();
    assert_eq!(all, ["a", "b", "rows", "row_a"]);
    let read = |key: &[u8], value: &[u8]| {
        Columns::all(&format).read(key, value, |fields| {
            let text = |field: Option<&[u8]>| field.unwrap().escape_ascii().to_string();
            Ok(fields.iter().map(text).collect::<Vec<_>>().join("|"))
        })
    };
    let key = record(["x,y", ""]);
    assert_eq!(read(&key, b"1,2").unwrap(), "x,y||1|2");
    assert!(
        read(b"x", b"1,2")
            .unwrap_err()
            .to_string()
            .contains("its key has 1 field")
    );
    assert_eq!(format.position("row_a"), Some(3));
    assert_eq!(format.position("2"), Some(3));
    assert_eq!(format.position("value"), None);
}

#[test]
fn a_row_that_is_no_record_is_an_error_that_names_it() {
    let json = RecordFormat::file(ValueFormat::Json);
    for (format, column, value, why) in [
        (&json, "a", "{", "no JSON object"),
        (&json, "a", "[1]", "no JSON object"),
        (&csv(&["a"]), "a", "\"a", "quote"),
        (
            &csv(&["a", "b"]),
            "a",
            "1",
            "1 field, and there are 2 columns",
        ),
        (
            &csv(&["a", "b"]),
            "a",
            "1,2,3",
            "3 fields, and there are 2 columns",
        ),
    ] {
        let columns = Columns::new(format, &[column]).unwrap();
        let error = columns
            .read(b"row7", value.as_bytes(), |_| Ok(()))
            .unwrap_err();
        let error = error.to_string();
        assert!(error.contains("row7") && error.contains(why), "{error}");
        let mut fields = Fields::default();
        assert!(format.check(value.as_bytes(), &mut fields).is_err());
    }
}

#[test]
fn names_that_would_mean_two_columns_are_refused() {
    let double = ValueFormat::csv(Some(&names(&["a", "b", "a"]))).unwrap_err();
    assert!(double.to_string().contains("\"a\""), "{double}");
    let key = ValueFormat::csv(Some(&names(&["a", "key"]))).unwrap();
    assert!(RecordFormat::table(key).is_err());
}
