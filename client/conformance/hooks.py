"""What the fuzzer must know of Hare that OpenAPI 3.1 cannot say."""

import json
import os

import schemathesis

# Where else a request carries an instance or a result than where the fuzzer takes it apart:
# an instance in the requests of solves, a result in those of verify.
ELSEWHERE = {
    "instance": [
        ("BoundRequest", "instance"),
        ("SimulationRequest", "instance"),
        ("SolveRequest", "previous_instance"),
        ("VerifyRequest", "instance"),
        ("VerifyRequest", "previous_instance"),
        ("WhatIfBase", "instance"),
    ],
    "result": [("SolveRequest", "previous"), ("VerifyRequest", "previous"), ("WhatIfBase", "result")],
}


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    """A JSON object a line; other text goes out as it is."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return "".join(json.dumps(line) + "\n" for line in (value if isinstance(value, list) else [value])).encode()


@schemathesis.hook
def before_load_schema(ctx, raw_schema):
    """Says what the events of a stream are: the specification says it of their
    data, for readers of lines and of events alike. With FUZZ_DOCUMENTS_ONCE an
    instance and a result are taken apart in one request each, and are the examples
    of the specification in the others: one parser reads them everywhere."""
    if os.environ.get("FUZZ_DOCUMENTS_ONCE"):
        content = raw_schema["paths"]["/v1/verify"]["post"]["requestBody"]["content"]
        example = content["application/json"]["example"]
        for document, fields in ELSEWHERE.items():
            for parent, field in fields:
                properties = raw_schema["components"]["schemas"][parent]["properties"]
                properties[field] = {"type": "object", "const": example[document]}
    for item in raw_schema["paths"].values():
        for operation in item.values():
            for response in operation["responses"].values():
                media = response.get("content", {}).get("text/event-stream")
                if media is None:
                    continue
                data = {"anyOf": [media["schema"]["x-item-schema"], {"type": "object", "required": ["code"]}]}
                media["schema"] = {
                    "type": "object",
                    "properties": {
                        "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
                    },
                }


@schemathesis.hook
def filter_case(ctx, case):
    """Leaves out streams that end with their session alone; bodies of events
    that are wrong: their lines are refused one by one, in a 200; and preferences
    that are none: RFC 7240 wants them ignored."""
    operation = case.operation.definition.raw.get("operationId")
    prefer = (case.headers or {}).get("Prefer")
    if prefer is not None and "wait" not in str(prefer) and str(prefer) not in ("", "respond-async"):
        return False
    if operation == "getDecisions" and "true" in str((case.query or {}).get("follow")).lower():
        return False
    return not (
        operation == "postEvents"
        and case.meta is not None
        and case.meta.generation.mode == schemathesis.GenerationMode.NEGATIVE
    )
