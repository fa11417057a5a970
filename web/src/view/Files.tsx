// Files in a message: pictures as pictures, the rest by name. They are fetched with the key, so a
// picture becomes an object address of this page.

import { createResource, createSignal, For, onCleanup, Show } from "solid-js";
import { download, request } from "../api/http";
import type { File } from "../api/types";
import { bytes } from "../text/format";
import { visibleName } from "../text/visible";
import { Dialog } from "./Dialog";
import { Icon } from "./marks";

const SEEN = ["image/png", "image/jpeg", "image/gif", "image/webp"];
export const isPicture = (file: { mime: string }) => SEEN.includes(file.mime);

export function Files(props: { files: File[] }) {
  const read = async (file: File) => (await request(`/files/${file.hash}`)).blob();
  return (
    <Show when={props.files.length}>
      <div class="files">
        <For each={props.files}>
          {(file) => (
            <Show when={isPicture(file)} fallback={<Named file={file} />}>
              <figure class="thumb">
                <Picture name={file.name} read={() => read(file)} />
                <figcaption class="ltr">
                  {visibleName(file.name)}, {bytes(file.size)}
                </figcaption>
              </figure>
            </Show>
          )}
        </For>
      </div>
    </Show>
  );
}

/** A small picture; pressed it is shown as large as the window allows. */
export function Picture(props: { name: string; read: () => Promise<Blob> }) {
  const [large, setLarge] = createSignal(false);
  const [address] = createResource(async () => URL.createObjectURL(await props.read()));
  onCleanup(() => {
    const made = address.error ? undefined : address.latest;
    if (made) URL.revokeObjectURL(made);
  });
  return (
    <Show when={!address.error && address()} fallback={<div class="skel picture" />}>
      {(address) => (
        <>
          <button class="zoom" aria-label={`Show ${props.name}`} onClick={() => setLarge(true)}>
            <img src={address()} alt={props.name} />
          </button>
          <Show when={large()}>
            <Dialog class="preview" label={props.name} close={() => setLarge(false)}>
              <img src={address()} alt={props.name} />
              <div class="row">
                <span class="grow clip ltr">{visibleName(props.name)}</span>
                <a class="btn bare" href={address()} download={props.name}>
                  Download
                </a>
                <button class="btn" onClick={() => setLarge(false)}>
                  Close
                </button>
              </div>
            </Dialog>
          </Show>
        </>
      )}
    </Show>
  );
}

function Named(props: { file: File }) {
  const save = () => void download(`/files/${props.file.hash}`, props.file.name);
  return (
    <button class="file row ltr" onClick={save}>
      <Icon name="file" />
      {visibleName(props.file.name)}, {bytes(props.file.size)}
    </button>
  );
}
