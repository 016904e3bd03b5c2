// The page that is shown. The part of the address behind `#` names it, so a page has a link of its own, and
// the browser's button goes back to the other one.

import { signal } from "@preact/signals";
import { frozen } from "../api/frozen";

export type PageName = "work" | "server";

/** The pages, in the order of their links. */
export const PAGES: readonly { name: PageName; hash: string; label: string }[] = [
  { name: "work", hash: "#", label: "Load and jobs" },
  { name: "server", hash: "#server", label: "Server" },
];

export const pageName = signal<PageName>("work");

/** Returns the page for the part of an address from its `#` on. Any other part belongs to the first page. */
export function pageOf(hash: string): PageName {
  return PAGES.find((page) => page.hash === hash)?.name ?? "work";
}

export function showPage(name: PageName): void {
  window.location.hash = PAGES.find((page) => page.name === name)!.hash;
}

/**
 * Shows the page of the address, and follows the address until the returned function is called. A page that is
 * a file has no other pages.
 */
export function followAddress(): () => void {
  if (frozen !== null) return () => {};
  const follow = () => {
    const next = pageOf(window.location.hash);
    if (next === pageName.value) return;
    pageName.value = next;
    window.scrollTo(0, 0);
  };
  follow();
  window.addEventListener("hashchange", follow);
  return () => window.removeEventListener("hashchange", follow);
}
