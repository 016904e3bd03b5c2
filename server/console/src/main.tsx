// The page of ebb's server. Starts it.

import { render } from "preact";
import { App } from "./view/app";

render(<App />, document.getElementById("app")!);
