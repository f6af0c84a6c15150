"""What an OpenAPI document cannot say about valid requests, said to schemathesis.

A document describes one request at a time. Some requests are right only after others (a reference to something that is
there, a cursor that was given out), some only beside others (a key that is used for one request), and some only for a
while (an expiry that lies ahead). Requests that are generated to be wrong stay as they are.
"""

import itertools
import json
import os
import re
import time
import urllib.parse
import uuid

import requests
import schemathesis

URL = os.environ["NAGAYA_TEST_URL"]
TENANT = {"Authorization": f"Bearer {os.environ['NAGAYA_TEST_TOKEN']}"}
OPERATOR = {"Authorization": f"Bearer {os.environ['NAGAYA_TEST_OPERATOR_TOKEN']}", "Nagaya-Reason": "schemathesis"}
DOCUMENT = requests.get(f"{URL}/openapi.json", timeout=30).json()
PATHS = {each["operationId"]: path for path, methods in DOCUMENT["paths"].items() for each in methods.values()}

numbers = itertools.count()
# What is there, the newest last: ids by entity, and the parameters of items by path.
ids = {}
items = {}
# The question that each cursor was given out for.
cursors = {}
# The last event of each item that is built from events.
events = {}


def operation(method, path):
    return DOCUMENT["paths"].get(path, {}).get(method.lower(), {})


def fields(operation):
    """The schemas of the fields in an operation's body."""
    content = operation.get("requestBody", {}).get("content", {})
    for kind in content.values():
        name = kind["schema"].get("$ref", "").removeprefix("#/components/schemas/")
        return DOCUMENT["components"]["schemas"].get(name, kind["schema"]).get("properties", {})
    return {}


def refer(fields, body):
    """Refers to what is there, wherever the body refers to something."""
    for name, schema in fields.items():
        known = ids.get(schema.get("x-nagaya-references"))
        if known and isinstance(body.get(name), str):
            body[name] = known[next(numbers) % len(known)]


def remember(operation, response):
    """Remembers what was made; the links of the answer say where in it the id is."""
    found = {}
    for link in operation["responses"]["201"].get("links", {}).values():
        found = {}
        for name, place in link["parameters"].items():
            if name.startswith("path."):
                value = response.json()
                for step in place.removeprefix("$response.body#/").split("/"):
                    value = value[step]
                found[name.removeprefix("path.")] = value
        # Ids that stand in a path as they are; schemathesis would take escaped ones for wrong ones.
        if found and all(urllib.parse.quote(str(value), safe=":@") == value for value in found.values()):
            keep(items, PATHS[link["operationId"]], found)
    # What others refer to has one id.
    if len(found) == 1:
        keep(ids, operation["tags"][0], *found.values())


def keep(known, name, value):
    known.setdefault(name, []).append(value)
    del known[name][:-10]


def seed():
    """Makes an item of each entity from its example, what is referred to first."""
    left = [(path, methods["post"]) for path, methods in DOCUMENT["paths"].items() if "post" in methods]
    progress = True
    while left and progress:
        progress = False
        for path, made in list(left):
            if "requestBody" not in made or "201" not in made["responses"] or "{" in path:
                left.remove((path, made))
                continue
            body = dict(made["requestBody"]["content"]["application/json"].get("example", {}))
            refer(fields(made), body)
            headers = OPERATOR if made.get("x-nagaya-reach") == "operator" else TENANT
            response = requests.post(URL + path, json=body, headers=headers, timeout=30)
            if response.status_code == 201:
                remember(made, response)
                left.remove((path, made))
                progress = True


seed()


@schemathesis.hook
def before_call(context, case, kwargs):
    wait(case)
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    query, headers, body = case.query or {}, case.headers or {}, case.body
    # Ids of one's own making lead to nothing: half of the requests go to what is there. Links know better where they go.
    there = items.get(case.operation.path)
    if there and case.meta.phase.name.value != "stateful" and next(numbers) % 2:
        case.path_parameters = dict(there[next(numbers) % len(there)])
    # A cursor is good for the list that gave it out, and for nothing else.
    if "cursor" in query and cursors.get(query["cursor"]) != question(case):
        del query["cursor"]
    # A range ends after it starts.
    if "from" in query and "to" in query:
        if query["from"] == query["to"]:
            del query["to"]
        elif query["from"] > query["to"]:
            query["from"], query["to"] = query["to"], query["from"]
    # A key is for one request.
    if "Idempotency-Key" in headers:
        headers["Idempotency-Key"] = f"{headers['Idempotency-Key'][:200]}-{uuid.uuid4()}"
    # A tag of one's own making is that of no item: some of them are enough.
    if "If-Match" in headers and next(numbers) % 3:
        headers["If-Match"] = "*"
    if isinstance(body, dict):
        known = fields(operation(case.operation.method, case.operation.path))
        refer(known, body)
        # Time has passed since the document was made.
        for name, schema in known.items():
            if isinstance(body.get(name), (int, float)) and abs(schema.get("minimum", 0) - time.time()) < 86_400:
                body[name] = max(body[name], int(time.time()) + 3_600)
            if name in body:
                body[name] = shortened(schema, body[name])


def wait(case):
    """To wait for an event that never happens ends in 503: those that have happened are waited for.

    Also where a request is generated to be wrong: if this is the id of an event, something else is wrong.
    """
    after = (case.query or {}).get("after")
    if not isinstance(after, str) or not re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", after):
        return
    named = (case.path_parameters or {}).values()
    happened = [events[value] for value in named if isinstance(value, str) and value in events]
    if happened:
        case.query["after"] = happened[0]
    else:
        del case.query["after"]


def shortened(schema, value):
    """A value without what has more bytes than a field may have: schemas count characters and elements."""
    limit = schema.get("x-nagaya-max-bytes")
    if limit and len(json.dumps(value, ensure_ascii=False).encode()) > limit:
        return {}
    if isinstance(value, list):
        return [shortened(schema.get("items", {}), each) for each in value]
    return value


@schemathesis.hook
def after_call(context, case, response):
    if response.status_code == 201:
        remember(operation(case.operation.method, case.operation.path), response)
    if response.status_code == 200 and b'"nextCursor"' in response.content:
        cursors[response.json().get("nextCursor")] = question(case)
    if response.status_code in (200, 201) and b'"lastEventId"' in response.content:
        happen(response.json().get("data"))


def happen(data):
    """Remembers the last event of an item, or of each of a page."""
    for item in data if isinstance(data, list) else [data]:
        last = item.get("lastEventId")
        for name, value in item.items():
            if name.endswith("Id") and name != "lastEventId" and isinstance(value, str):
                events[value] = max(last, events.get(value, ""))


def question(case):
    query = {name: value for name, value in (case.query or {}).items() if name not in ("cursor", "limit")}
    return (case.operation.label, repr(sorted((case.path_parameters or {}).items())), repr(sorted(query.items())))
