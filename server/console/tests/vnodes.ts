// What a component without hooks draws, as a tree that tests search.

import type { ComponentChild, VNode } from "preact";

type Props = Record<string, unknown> & { children?: unknown };

/** Returns the elements in a tree, outer ones first; components without hooks are called. */
export function elementsOf(child: ComponentChild | unknown): VNode<Props>[] {
  if (Array.isArray(child)) return child.flatMap(elementsOf);
  if (typeof child !== "object" || child === null) return [];
  const node = child as VNode<Props>;
  if (typeof node.type !== "function") return [node, ...elementsOf(node.props.children)];
  return elementsOf((node.type as (props: Props) => unknown)(node.props));
}

/** Returns the elements with a class. */
export function withClass(child: unknown, name: string): VNode<Props>[] {
  return elementsOf(child).filter(({ props }) => String(props.class ?? "").split(" ").includes(name));
}

/** Returns the text in a tree. */
export function textOf(child: unknown): string {
  if (Array.isArray(child)) return child.map(textOf).join("");
  if (typeof child === "string" || typeof child === "number") return String(child);
  if (typeof child !== "object" || child === null) return "";
  const node = child as VNode<Props>;
  if (typeof node.type === "function") return textOf((node.type as (props: Props) => unknown)(node.props));
  return textOf(node.props.children);
}
