// The page of the server itself: its queries, its backups and its configuration.

import { useEffect } from "preact/hooks";
import { watchServer } from "../state/server";
import { Backups } from "./backups";
import { Queries } from "./queries";
import { Settings } from "./settings";

export function Server() {
  useEffect(watchServer, []);
  return (
    <main class="page server">
      <Queries />
      <Backups />
      <Settings />
    </main>
  );
}
