// The form of a model profile, in its own words.

export interface ProfileForm {
  kind: string;
  name: string;
  address: string;
  key: string;
  model: string;
}

/** Types whose vendor asks for a key everywhere. */
const KEYED = ["anthropic", "openai", "openrouter"];

/** What is missing or wrong; `before` has what stays when its field is empty. */
export function formProblem(
  form: ProfileForm,
  before?: { address?: string | null; key: string },
): string | undefined {
  const address = form.address.trim();
  if (!form.name.trim()) return "Enter a name.";
  if (!form.model.trim()) return "Enter the model.";
  if (form.kind === "server" && !address && !before?.address) return "Enter the address.";
  if (address && !/^https?:\/\/[^\s/]/i.test(address)) {
    return "The address begins with http:// or https://.";
  }
  if (form.key.trim() || !KEYED.includes(form.kind)) return undefined;
  if (before === undefined || before.key === "none") return "Enter the key.";
  const isSame = !address || address === before.address;
  return isSame ? undefined : "Enter the key too: the saved one is for another address.";
}

/** What the hive says of the settings file, with the names of the fields. */
export function formWords(text: string): string {
  const named = (name: string) => new RegExp(`(?:the (?:profile's )?)?\`?${name}\`?`, "g");
  return text.replace(named("api_url"), "the address").replace(named("api_key"), "the key");
}

/**
 * Whether it stands in `providers.yaml` as somebody wrote it, so that it is changed there alone.
 * Told by its key: that of a profile that is saved here is in `keys.env` or the vault, or there is
 * none. Nothing tells which of those were written by hand as well.
 */
export function isByHand({ key }: { key: string }): boolean {
  return key === "written out in providers.yaml" || key.endsWith(" of the environment");
}
