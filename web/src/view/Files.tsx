// Files in a message: pictures as pictures, the rest by name. They are fetched with the key, so a
// picture becomes an object address of this page.

import { createResource, For, onCleanup, Show } from "solid-js";
import { download, request } from "../api/http";
import type { File } from "../api/types";
import { bytes } from "../text/format";
import { Icon } from "./marks";

const SEEN = ["image/png", "image/jpeg", "image/gif", "image/webp"];

export function Files(props: { files: File[] }) {
  return (
    <Show when={props.files.length}>
      <div class="files">
        <For each={props.files}>
          {(file) => (SEEN.includes(file.mime) ? <Picture file={file} /> : <Named file={file} />)}
        </For>
      </div>
    </Show>
  );
}

function Picture(props: { file: File }) {
  const [address] = createResource(
    () => props.file.hash,
    async (hash) => URL.createObjectURL(await (await request(`/files/${hash}`)).blob()),
  );
  onCleanup(() => {
    const made = address.latest;
    if (made) URL.revokeObjectURL(made);
  });
  return (
    <figure class="thumb">
      <Show when={!address.error && address()} fallback={<div class="skel picture" />}>
        {(address) => <img src={address()} alt={props.file.name} />}
      </Show>
      <figcaption>
        {props.file.name}, {bytes(props.file.size)}
      </figcaption>
    </figure>
  );
}

function Named(props: { file: File }) {
  const save = () => void download(`/files/${props.file.hash}`, props.file.name);
  return (
    <button class="file row" onClick={save}>
      <Icon name="file" />
      {props.file.name}, {bytes(props.file.size)}
    </button>
  );
}
