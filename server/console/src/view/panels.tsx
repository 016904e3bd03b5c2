// The dialog that is open.

import { panel } from "../state/panels";
import { Confirm } from "./confirm";
import { Help } from "./help";
import { JobSheet } from "./job-sheet";
import { SnapshotForm } from "./snapshot-form";
import { Submit } from "./submit";
import { WhatIfSize } from "./what-if-size";

export function Panels() {
  const now = panel.value;
  switch (now?.kind) {
    case "submit":
      return <Submit {...(now.from === undefined ? {} : { from: now.from })} />;
    case "what-if":
      return <WhatIfSize />;
    case "job":
      return <JobSheet id={now.id} />;
    case "snapshot":
      return <SnapshotForm />;
    case "help":
      return <Help />;
    case "confirm":
      return <Confirm {...now} />;
    default:
      return null;
  }
}
