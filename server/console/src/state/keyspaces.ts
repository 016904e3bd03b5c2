// The keyspaces that users create.

import { get } from "../api/request";
import { type Get, allPages } from "./pages";

/** The keyspace of the server's own tables. Names of other keyspaces may begin with `ebb_`, too. */
const SYSTEM_KEYSPACE = "ebb_system";

/** Requests the names of all keyspaces except that of the server's own tables. */
export async function userKeyspaces(request: Get = get): Promise<string[]> {
  const names = await allPages<string>("/v1/keyspaces", "keyspaces", request);
  return names.filter((name) => name !== SYSTEM_KEYSPACE);
}
