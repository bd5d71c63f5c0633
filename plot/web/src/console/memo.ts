import { Component, createElement, type ComponentType, type VNode } from "preact";

// memo draws a component again only where one of its properties is another; functions do not count.
export function memo<P extends object>(draw: (props: P) => VNode): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      for (const k in next) {
        if (typeof next[k] !== "function" && next[k] !== (this.props as P)[k]) return true;
      }
      return false;
    }
    render() {
      return createElement(draw as never, this.props as never) as VNode;
    }
  };
}
