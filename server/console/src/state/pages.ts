// Lists of the server, which gives them by pages.

import { Problem, get } from "../api/request";
import type { Page } from "../api/types";

/** The greatest length of a page. */
export const PAGE_MAX = 1000;

export type Get = <T>(path: string) => Promise<T>;

/**
 * Requests all pages of a list. The path may have a query. `name` is the member of a page that has its
 * elements. With `after`, the first page is the one behind the page whose `next` this is.
 */
export async function allPages<T>(
  path: string,
  name: string,
  request: Get = get,
  after: string | null = null,
): Promise<T[]> {
  const first = `${path}${path.includes("?") ? "&" : "?"}limit=${PAGE_MAX}`;
  const elements: T[] = [];
  let next = after;
  do {
    const from: string = next === null ? "" : `&after=${encodeURIComponent(next)}`;
    const page = await request<Page & Record<string, unknown>>(first + from);
    elements.push(...(page[name] as T[]));
    next = page.next ?? null;
  } while (next !== null);
  return elements;
}

/** Requests something that was listed. The answer is empty if it is gone. */
export async function ifPresent<T>(path: string, request: Get = get): Promise<T[]> {
  try {
    return [await request<T>(path)];
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return [];
    throw error;
  }
}
