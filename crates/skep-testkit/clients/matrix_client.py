"""The calls of client_matrix.py with a Python library: matrix_client.py openai|langchain|litellm

Reads the calls from standard input, makes the first and then all others at once, and prints a line
for each.
"""

import json
import os
import sys
import threading

TOKEN = os.environ["SKEP_TOKEN"]
PRINTING = threading.Lock()
# Seconds a library has to show the first piece of a stream.
FIRST_PIECE = 5


def with_openai(call, stream):
    import openai

    client = openai.OpenAI(base_url=call["url"], api_key=TOKEN, timeout=call["timeout"])
    asked = {"model": "main", "messages": [{"role": "user", "content": call["text"]}]}
    if stream:
        return client.chat.completions.create(stream=True, **asked)
    return client.chat.completions.create(**asked).choices[0].message.content


def with_langchain(call, stream):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="main", base_url=call["url"], api_key=TOKEN, timeout=call["timeout"])
    return model.stream(call["text"]) if stream else model.invoke(call["text"]).content


def with_litellm(call, stream):
    import litellm

    litellm.suppress_debug_info = True
    done = litellm.completion(
        model="openai/main", messages=[{"role": "user", "content": call["text"]}],
        api_base=call["url"], api_key=TOKEN, timeout=call["timeout"], stream=stream)
    return done if stream else done.choices[0].message.content


def make(use, call):
    told = {"case": call["case"]}
    try:
        if call["case"] == "abort":
            stream = use(call, True)
            reading = threading.Thread(target=lambda: next(iter(stream), None), daemon=True)
            reading.start()
            reading.join(FIRST_PIECE)
            # One that shows nothing of what has come is closed by the end of the program.
            if not reading.is_alive():
                stream.close()
            told["error"] = "aborted"
        else:
            told["answer"] = use(call, False)
    except Exception as error:
        told["error"] = f"{type(error).__name__}: {error}"[:500]
    # In one piece: print would write the end of the line apart from it.
    with PRINTING:
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def main():
    use = {"openai": with_openai, "langchain": with_langchain, "litellm": with_litellm}
    use = use[sys.argv[1]]
    first, *calls = json.load(sys.stdin)
    # What is loaded at the first call is no part of a time-out.
    make(use, first)
    threads = [threading.Thread(target=make, args=(use, call)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Whatever is still open closes here, as with a program that ends.
    sys.stdout.flush()
    os._exit(0)


main()
