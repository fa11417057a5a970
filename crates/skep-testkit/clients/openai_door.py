"""The official openai library against a hive's own /v1: SKEP_URL, SKEP_TOKEN, agent `main`.

Any answer of the agent will do; what is checked is that the library understands it. Prints one
line a case and `N passed, M failed`; the exit code is 0 when none failed.
"""

import os
import sys
import traceback

import openai

URL = os.environ["SKEP_URL"] + "/v1"
TOKEN = os.environ["SKEP_TOKEN"]
ASK = [{"role": "user", "content": "hello"}]


def client(**options):
    return openai.OpenAI(base_url=URL, api_key=TOKEN, **options)


def models():
    listed = [model.id for model in client().models.list()]
    assert "main" in listed, listed
    assert client().models.retrieve("main").object == "model"


def whole():
    done = client().chat.completions.create(model="main", messages=ASK)
    choice = done.choices[0]
    assert choice.message.role == "assistant" and choice.message.content, done
    assert choice.finish_reason == "stop", done
    assert done.usage.total_tokens >= done.usage.completion_tokens > 0, done.usage


def streamed():
    text, usage, finish = "", None, None
    stream = client().chat.completions.create(
        model="main", messages=ASK, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    assert text and finish == "stop", (text, finish)
    assert usage.total_tokens > 0, usage


def streamed_by_helper():
    with client().chat.completions.stream(model="main", messages=ASK) as stream:
        for _ in stream:
            pass
        done = stream.get_final_completion()
    assert done.choices[0].message.content, done


def conversation_without_session():
    messages = [{"role": "system", "content": "be brief"}, *ASK]
    for _ in range(2):
        done = client().chat.completions.create(model="main", messages=messages)
        messages.append(done.choices[0].message)
        messages.append({"role": "user", "content": [{"type": "text", "text": "and now?"}]})


def conversation_in_a_session():
    session = client(default_headers={"X-Skep-Session": "openai-library"})
    messages = list(ASK)
    for stream in (False, True):
        done = session.chat.completions.create(model="main", messages=messages, stream=stream)
        if stream:
            assert "".join(chunk.choices[0].delta.content or "" for chunk in done)
        else:
            messages.append(done.choices[0].message)
            messages.append({"role": "user", "content": "and now?"})


def refused(kind, code, **changes):
    asked = {"model": "main", "messages": ASK, **changes}
    try:
        client().chat.completions.create(**asked)
    except kind as error:
        assert error.code == code, (error.code, code)
        assert len(error.body["message"]) > 10, error.body
    else:
        raise AssertionError(f"{changes} was taken")


def errors():
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    bad = openai.BadRequestError
    refused(openai.NotFoundError, "model_not_found", model="nobody")
    refused(bad, "unsupported_parameter", tools=[tool])
    refused(bad, "unsupported_parameter", n=2)
    refused(bad, "unknown_role", messages=[{"role": "tool", "content": "x", "tool_call_id": "c"}])
    refused(bad, "nothing_to_answer", messages=[])
    try:
        openai.OpenAI(base_url=URL, api_key="wrong").models.list()
    except openai.AuthenticationError as error:
        assert error.code == "unauthorized", error.code
    else:
        raise AssertionError("a wrong key was taken")


CASES = [
    models,
    whole,
    streamed,
    streamed_by_helper,
    conversation_without_session,
    conversation_in_a_session,
    errors,
]


def main():
    failed = 0
    for case in CASES:
        try:
            case()
            print(f"openai {openai.__version__} {case.__name__}: ok")
        except Exception:
            failed += 1
            print(f"openai {openai.__version__} {case.__name__}: FAILED")
            traceback.print_exc()
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
