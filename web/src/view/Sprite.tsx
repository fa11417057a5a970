// Every drawing of the page, once, in the page itself: used by `<use href="#…">`, so that colours
// and motion follow the place where they stand.

import sprite from "./sprite.svg?raw";

export function Sprite() {
  // Our own file, part of the build: nothing from outside ever comes this way.
  return <div aria-hidden="true" innerHTML={sprite} />;
}
