"""Skills that other people publish, unchanged: skills.py SKEP FOLDER, with packages in FOLDER.

The skills of each package become those of an agent: all are listed, with their descriptions. What
has no front matter is no skill to anybody, and is named.
"""

import pathlib
import sys
import tarfile

from hive import Hive, play

AGENT = "teams/main/"


def skills(package):
    """Files of each skill by the name of its folder; the first one of a name counts."""
    with tarfile.open(package) as archive:
        files = [member for member in archive if member.isfile()]
        folders = {}
        for member in files:
            path = pathlib.PurePosixPath(member.name)
            if path.name.lower() == "skill.md":
                folders.setdefault(path.parent.name, path.parent)
        found = {name: {} for name in folders}
        for member in files:
            for name, folder in folders.items():
                if member.name.startswith(f"{folder}/"):
                    text = archive.extractfile(member).read()
                    found[name][member.name[len(f"{folder}/") :]] = text
    return found


def readable(text):
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def case(skep, package):
    def run():
        found = skills(package)
        assert found, "no skills in the package"
        files = {
            "providers.yaml": "profiles:\n  default: {provider: rehearsal}\n",
            AGENT + "config.yaml": "allowed_tools: [read, use_skill]\n",
        }
        none = set()
        for name, parts in found.items():
            for part, text in parts.items():
                is_skill = part.lower() == "skill.md"
                text = readable(text)
                if is_skill and not text.lstrip("\ufeff").startswith("---"):
                    none.add(name)
                if text is not None:
                    files[f"{AGENT}skills/{name}/{part}"] = text
        with Hive(skep, files) as hive:
            answer = hive.call("GET", "/api/v1/agents/main/skills")
        listed = {skill["name"]: skill for skill in answer["skills"]}
        wanted = set(found) - none
        assert set(listed) == wanted, (wanted ^ set(listed), answer["warnings"])
        assert all(skill["description"].strip() for skill in listed.values()), listed
        named = {warning["file"].split("/")[3] for warning in answer["warnings"]}
        assert named == none, answer["warnings"]
        print(f"   {len(listed)} skills, {len(none)} without front matter named")

    return run


if __name__ == "__main__":
    program, folder = sys.argv[1:]
    packages = sorted(pathlib.Path(folder).glob("*.tgz"))
    play([(package.name, case(program, package)) for package in packages])
