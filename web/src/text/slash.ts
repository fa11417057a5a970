// Commands as one types them.

import type { CommandInfo } from "../api/types";

/** The commands that what was typed may become; none once a space follows the word. */
export function matching(text: string, commands: CommandInfo[]): CommandInfo[] {
  if (!/^\/[a-z]*$/.test(text)) return [];
  return commands.filter((command) => command.name.startsWith(text));
}
