"""The official client libraries against the scripted model: what it sends is what they expect.

    official_clients.py PATH-TO-EXAMPLE

PATH-TO-EXAMPLE is the built example `scripted_model` (cargo build -p skep-testkit --example
scripted_model). Prints one line per check, at the end `N passed, M failed`.
"""

import json
import subprocess
import sys
import traceback

import anthropic
import openai

KEY = "right-key"
PATHS = ['ä "q" \n', "b"]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
PNG = "iVBORw0KGgpyZXN0"
checks = {"passed": 0, "failed": 0}


def check(name, found, expected):
    if found == expected:
        checks["passed"] += 1
        print("ok", name)
    else:
        fails(name, f"found {found!r}, expected {expected!r}")


def fails(name, why):
    checks["failed"] += 1
    print("FAILED", name, why)


def strict(event):
    """Validates what the library only casts: every field it knows has the type it should have."""
    type(event).model_validate(event.model_dump(by_alias=True, warnings=False))
    return event


def raises(name, kind, status, call):
    try:
        call()
    except kind as error:
        check(name, getattr(error, "status_code", None), status)
        return error
    fails(name, "nothing was raised")


def messages_wire(base):
    client = anthropic.Anthropic(api_key=KEY, base_url=base, max_retries=0)
    tools = [{"name": "read", "input_schema": SCHEMA}]

    def arguments(history):
        return {"model": "m", "max_tokens": 2000, "tools": tools, "messages": history,
                "thinking": {"type": "enabled", "budget_tokens": 1024}}

    def ask(text, **more):
        user = [{"role": "user", "content": text}]
        return client.messages.create(model="m", max_tokens=100, messages=user, **more)

    history = [{"role": "user", "content": "tools"}]
    with client.messages.stream(**arguments(history)) as stream:
        text = "".join(stream.text_stream)
        streamed = stream.get_final_message()
    whole = client.messages.create(**arguments(history))
    check("messages: streamed text", text, "Grüße, I look.")
    for name, answer in [("streamed", streamed), ("whole", whole)]:
        strict(answer)
        kinds = [block.type for block in answer.content]
        check(f"messages: {name} blocks", kinds,
              ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"])
        check(f"messages: {name} calls", [b.input["path"] for b in answer.content[3:]], PATHS)
        usage = answer.usage
        check(f"messages: {name} usage",
              (usage.input_tokens, usage.output_tokens, usage.cache_creation_input_tokens,
               usage.cache_read_input_tokens), (11, 22, 33, 44))
        check(f"messages: {name} stop", answer.stop_reason, "tool_use")
    results = [{"type": "tool_result", "tool_use_id": block.id, "content": f"r{at}"}
               for at, block in enumerate(streamed.content[3:])]
    history += [{"role": "assistant", "content": streamed.content},
                {"role": "user", "content": results}]
    check("messages: goes on", client.messages.create(**arguments(history)).content[0].text,
          "r0+r1")
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    picture = {"type": "image", "source": source}
    seen = ask([picture, {"type": "text", "text": "look"}])
    check("messages: picture", seen.content[0].text, "I see image/png 12")
    call = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [picture]}
    seen = client.messages.create(model="m", max_tokens=100, tools=tools, messages=[
        {"role": "user", "content": "look"}, {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]}])
    check("messages: picture of a tool", seen.content[0].text, "I see image/png 12")
    wrong = {"type": "image", "source": {**source, "media_type": "image/gif"}}
    raises("messages: picture of another kind", anthropic.BadRequestError, 400,
           lambda: ask([wrong]))
    check("messages: limit", ask("limit").stop_reason, "max_tokens")
    raises("messages: rate", anthropic.RateLimitError, 429, lambda: ask("rate"))
    raises("messages: broken", anthropic.InternalServerError, 500, lambda: ask("broken"))
    raises("messages: overloaded", anthropic.APIStatusError, 529, lambda: ask("overloaded"))
    raises("messages: too long", anthropic.BadRequestError, 400, lambda: ask("long"))
    raises("messages: missing", anthropic.NotFoundError, 404, lambda: ask("missing"))
    raises("messages: breaks", anthropic.APIStatusError, 200,
           lambda: list(ask("breaks", stream=True)))
    other = client.with_options(api_key="wrong")
    raises("messages: key", anthropic.AuthenticationError, 401,
           lambda: other.messages.create(**arguments([{"role": "user", "content": "hi"}])))


def chat_wire(base):
    client = openai.OpenAI(api_key=KEY, base_url=f"{base}/v1", max_retries=0)
    function = {"name": "read", "parameters": SCHEMA}
    tools = [{"type": "function", "function": function}]

    def ask(text, **more):
        user = [{"role": "user", "content": text}]
        return client.chat.completions.create(model="m", messages=user, **more)

    history = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "tools"}]
    chunks = [strict(chunk) for chunk in client.chat.completions.create(
        model="m", messages=history, tools=tools, stream=True,
        stream_options={"include_usage": True})]
    thought = "".join(c.choices[0].delta.model_extra.get("reasoning_content", "")
                      for c in chunks if c.choices)
    check("chat: streamed thinking", thought, "I wonder… 🐝")
    with client.chat.completions.stream(
            model="m", messages=history, tools=tools,
            stream_options={"include_usage": True}) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion()
    whole = client.chat.completions.create(model="m", messages=history, tools=tools)
    for name, answer in [("streamed", streamed), ("whole", whole)]:
        if name == "whole":
            strict(answer)
        message = answer.choices[0].message
        check(f"chat: {name} text", message.content, "Grüße, I look.")
        paths = [json.loads(call.function.arguments)["path"] for call in message.tool_calls]
        check(f"chat: {name} calls", paths, PATHS)
        usage = answer.usage
        check(f"chat: {name} usage",
              (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens,
               usage.prompt_tokens_details.cached_tokens), (88, 22, 110, 44))
        check(f"chat: {name} finish", answer.choices[0].finish_reason, "tool_calls")
    message = whole.choices[0].message
    calls = [call.model_dump() for call in message.tool_calls]
    history.append({"role": "assistant", "content": message.content, "tool_calls": calls})
    history += [{"role": "tool", "tool_call_id": call.id, "content": f"r{at}"}
                for at, call in enumerate(message.tool_calls)]
    more = client.chat.completions.create(model="m", messages=history, tools=tools)
    check("chat: goes on", more.choices[0].message.content, "r0+r1")
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    look = {"type": "text", "text": "look"}
    check("chat: picture", ask([picture, look]).choices[0].message.content, "I see image/png 12")
    called = {"role": "assistant", "tool_calls": [calls[0]]}
    answer = {"role": "tool", "tool_call_id": calls[0]["id"], "content": [picture]}
    raises("chat: picture of a tool", openai.BadRequestError, 400,
           lambda: client.chat.completions.create(model="m", tools=tools, messages=[
               {"role": "user", "content": "look"}, called, answer]))
    check("chat: limit", ask("limit").choices[0].finish_reason, "length")
    openai_errors("chat", ask)
    other = client.with_options(api_key="wrong")
    raises("chat: key", openai.AuthenticationError, 401,
           lambda: other.chat.completions.create(model="m", messages=history))


def responses_wire(base):
    client = openai.OpenAI(api_key=KEY, base_url=f"{base}/v1", max_retries=0)
    tools = [{"type": "function", "name": "read", "parameters": SCHEMA, "strict": False}]

    def arguments(items):
        return {"model": "m", "input": items, "tools": tools, "store": False,
                "include": ["reasoning.encrypted_content"],
                "reasoning": {"effort": "low", "summary": "auto"}}

    def ask(text, **more):
        return client.responses.create(model="m", input=text, **more)

    items = [{"role": "user", "content": "tools"}]
    events = [event for event in client.responses.create(**arguments(items), stream=True)]
    for event in events:
        # No part of the library's types, but sent by the real service between events.
        if event.type != "keepalive":
            strict(event)
    thought = "".join(e.delta for e in events if e.type == "response.reasoning_summary_text.delta")
    check("responses: streamed thinking", thought, "I wonder… 🐝")
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    check("responses: streamed text", text, "Grüße, I look.")
    streamed = events[-1].response
    whole = strict(client.responses.create(**arguments(items)))
    for name, answer in [("streamed", streamed), ("whole", whole)]:
        check(f"responses: {name} text", answer.output_text, "Grüße, I look.")
        check(f"responses: {name} items", [item.type for item in answer.output],
              ["reasoning", "reasoning", "message", "function_call", "function_call"])
        paths = [json.loads(item.arguments)["path"] for item in answer.output[3:]]
        check(f"responses: {name} calls", paths, PATHS)
        usage = answer.usage
        check(f"responses: {name} usage",
              (usage.input_tokens, usage.output_tokens, usage.total_tokens,
               usage.input_tokens_details.cached_tokens), (88, 22, 110, 44))
        check(f"responses: {name} status", answer.status, "completed")
    items += [item.model_dump(exclude_none=True) for item in streamed.output]
    items += [{"type": "function_call_output", "call_id": item.call_id, "output": f"r{at}"}
              for at, item in enumerate(streamed.output[3:])]
    check("responses: goes on", client.responses.create(**arguments(items)).output_text, "r0+r1")
    picture = {"type": "input_image", "detail": "auto",
               "image_url": f"data:image/png;base64,{PNG}"}
    look = {"role": "user", "content": [picture, {"type": "input_text", "text": "look"}]}
    seen = client.responses.create(model="m", input=[look])
    check("responses: picture", seen.output_text, "I see image/png 12")
    call = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": [picture]}
    seen = client.responses.create(model="m", input=[
        {"role": "user", "content": "look"}, call, result], tools=tools)
    check("responses: picture of a tool", seen.output_text, "I see image/png 12")
    limit = ask("limit")
    check("responses: limit", (limit.status, limit.incomplete_details.reason),
          ("incomplete", "max_output_tokens"))
    openai_errors("responses", ask)
    failed = list(ask("breaks", stream=True))[-1]
    check("responses: breaks", (failed.type, failed.response.error.code),
          ("response.failed", "server_error"))
    other = client.with_options(api_key="wrong")
    raises("responses: key", openai.AuthenticationError, 401,
           lambda: other.responses.create(**arguments("hi")))


def openai_errors(wire, ask):
    raises(f"{wire}: rate", openai.RateLimitError, 429, lambda: ask("rate"))
    raises(f"{wire}: broken", openai.InternalServerError, 500, lambda: ask("broken"))
    raises(f"{wire}: overloaded", openai.InternalServerError, 503, lambda: ask("overloaded"))
    error = raises(f"{wire}: too long", openai.BadRequestError, 400, lambda: ask("long"))
    check(f"{wire}: too long has its code", error.code, "context_length_exceeded")
    raises(f"{wire}: missing", openai.NotFoundError, 404, lambda: ask("missing"))
    if wire == "chat":
        raises("chat: breaks", openai.APIError, None, lambda: list(ask("breaks", stream=True)))


def main():
    model = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        base = model.stdout.readline().strip()
        for wire in (messages_wire, chat_wire, responses_wire):
            try:
                wire(base)
            except Exception:
                fails(wire.__name__, traceback.format_exc())
    finally:
        model.stdin.close()
        model.wait(timeout=10)
    print(f"openai {openai.__version__}, anthropic {anthropic.__version__}")
    print(f"{checks['passed']} passed, {checks['failed']} failed")
    sys.exit(1 if checks["failed"] else 0)


main()
