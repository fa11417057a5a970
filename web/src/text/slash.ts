// Commands as one types them.

export interface SlashCommand {
  name: string;
  arguments: string;
  help: string;
}

/** The commands that what was typed may become; none once a space follows the word. */
export function matching(text: string, commands: SlashCommand[]): SlashCommand[] {
  if (!/^\/[a-z]*$/.test(text)) return [];
  return commands.filter((command) => command.name.startsWith(text));
}
