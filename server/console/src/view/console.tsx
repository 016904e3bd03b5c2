// The console of somebody who is logged in: the top, one of its pages, and what lies over it.

import { useEffect } from "preact/hooks";
import { followAddress, pageName } from "../state/address";
import { late, start } from "../state/live";
import { Header } from "./header";
import { Messages } from "./messages";
import { Panels } from "./panels";
import { Server } from "./server";
import { watchKeys } from "./shortcuts";
import { Work } from "./work";

export function Console() {
  useEffect(start, []);
  useEffect(followAddress, []);
  useEffect(watchKeys, []);
  useEffect(() => {
    document.title = late.value === 0 ? "ebb" : `${late.value} late – ebb`;
  }, [late.value]);
  const isWork = pageName.value === "work";
  return (
    <>
      {isWork && (
        <a class="skip" href="#jobs">
          To the jobs
        </a>
      )}
      <Header />
      {isWork ? <Work /> : <Server />}
      <Panels />
      <Messages />
    </>
  );
}
