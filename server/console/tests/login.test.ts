import assert from "node:assert/strict";
import { test } from "node:test";
import { TokenHint } from "../src/view/login";
import { textOf } from "./vnodes";

// Regression: on a server with logins, the command that the page showed was refused.
test("the page that asks for a token names the role that a server with logins requires", () => {
  const text = textOf(TokenHint());
  assert.match(text, /ebb token create --data DIR --name me --scope jobs \[--role ROLE\]/);
  assert.match(text, /--auth accepts only tokens of a role/);
});
