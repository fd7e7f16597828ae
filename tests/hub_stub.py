"""A Hub in this process: its HTTP interface for repositories, large files and commits, in small.

It keeps what it is sent, counts what it is asked, and fails on demand. Written by the requests that
huggingface_hub makes (`_commit_api.py`, `lfs.py`, `hf_api.py`), not by what publish wants of it.
"""

import base64
import hashlib
import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LARGE = re.compile(r"\.(safetensors|png)$")
TOKENS = {"hf_writer": "write", "hf_reader": "read"}
USER, ORGANISATION = "alice", "lab"
ROUTES = []


class RefusalError(Exception):
    """A response that is no success."""

    def __init__(self, code, message="", page=None, **headers):
        super().__init__(message)
        self.code, self.message, self.headers = code, message, headers
        self.body = page or {"error": message}  # a gateway sends a page, the Hub itself JSON


@dataclass
class Repository:
    """Files by commit, and what has been uploaded for a commit to come."""

    private: bool
    commits: list = field(default_factory=list)  # message, and all files as they are then
    objects: dict = field(default_factory=dict)  # large files by their sha256
    parts: dict = field(default_factory=dict)
    kind: str = "model"

    @property
    def files(self):
        return self.commits[-1][1]

    @property
    def head(self):
        told = [(message, sorted(files)) for message, files in self.commits]
        return hashlib.sha1(repr(told).encode()).hexdigest()

    def save(self, folder):
        """Write the files as a download would."""
        folder.mkdir()
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder


@dataclass
class Fault:
    """What happens instead of an answer, or after the work is done, so many times."""

    request: re.Pattern
    refusal: object  # an error, something to do meanwhile, or None: the connection breaks
    times: int
    after: bool


def route(method, pattern):
    def register(function):
        ROUTES.append((method, re.compile(pattern), function))
        return function

    return register


class Hub:
    """The server, and what became of it."""

    def __init__(self, chunk_size=None):
        self.chunk_size = chunk_size  # of uploads in parts; None: in one
        self.repositories, self.requests, self.faults = {}, [], []
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads, self.server.hub = True, self
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def fail(self, request, code=None, message="", times=1, after=False, **headers):
        refusal = RefusalError(code, message, **headers) if code else None
        self.faults.append(Fault(re.compile(request), refusal, times, after))

    def meanwhile(self, request, act):
        """Have something happen before a request is answered."""
        self.faults.append(Fault(re.compile(request), act, 1, after=False))

    def asked(self, pattern):
        return [request for request in self.requests if re.search(pattern, request)]

    def fault_at(self, request, after):
        with self.lock:
            for fault in self.faults:
                if fault.times and fault.after == after and fault.request.search(request):
                    fault.times -= 1
                    return fault
        return None

    def repository(self, name, kind=None):
        known = self.repositories.get(name)
        if known is None or kind not in (None, known.kind):
            raise RefusalError(404, "Repository not found", **{"X-Error-Code": "RepoNotFound"})
        return self.repositories[name]


@contextmanager
def running_hub(**settings):
    hub = Hub(**settings)
    thread = threading.Thread(target=hub.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.server.shutdown()
        hub.server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        hub, request = self.server.hub, f"{self.command} {unquote(urlsplit(self.path).path)}"
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            self.body = b"".join(iter(self.read_chunk, b""))
        hub.requests.append(request)
        try:
            self.fail_if_told(hub.fault_at(request, after=False))
            code, content, headers = self.work(hub)
            self.fail_if_told(hub.fault_at(request, after=True))
        except RefusalError as refusal:
            code, content = refusal.code, refusal.body
            headers = {"X-Error-Message": refusal.message, **refusal.headers}
        except ConnectionAbortedError:
            self.close_connection = True
            self.connection.close()
            return
        self.answer(code, content, headers)

    def read_chunk(self):
        chunk = self.rfile.read(int(self.rfile.readline(), 16))
        self.rfile.readline()
        return chunk

    def fail_if_told(self, fault):
        if fault and callable(fault.refusal):
            fault.refusal()
        elif fault:
            raise fault.refusal or ConnectionAbortedError

    def work(self, hub):
        path = unquote(urlsplit(self.path).path)
        wanted = {"HEAD": "GET"}.get(self.command, self.command)
        for method, pattern, function in ROUTES:
            match = pattern.fullmatch(path)
            if match and method == wanted:
                found = function(hub, self, *match.groups())
                return found if isinstance(found, tuple) else (200, found, {})
        raise RefusalError(404, f"the stub has no {self.command} {path}")

    def answer(self, code, content, headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def json(self):
        return json.loads(self.body)

    def role(self):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in TOKENS:
            raise RefusalError(401, "Invalid credentials in Authorization header")
        return TOKENS[token]

    def must_write(self, name):
        if self.role() != "write" or name.split("/")[0] not in (USER, ORGANISATION):
            raise RefusalError(403, f"You don't have the rights to write to {name}")

    def log_message(self, *arguments):
        pass


for name in ("do_POST", "do_PUT", "do_HEAD"):
    setattr(Handler, name, Handler.do_GET)


def oid_of(name, content):
    """What the Hub knows a file by: git's digest, of large files sha256."""
    if LARGE.search(name):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@route("GET", "/api/whoami-v2")
def whoami(hub, request):
    role = request.role()
    orgs = [{"name": ORGANISATION}]
    return {"name": USER, "orgs": orgs, "auth": {"accessToken": {"role": role}}}


@route("POST", "/api/repos/create")
def create(hub, request):
    asked = request.json()
    name = f"{asked.get('organization') or USER}/{asked['name']}"
    request.must_write(name)
    told = {"url": f"{hub.url}/{name}", "name": name}
    if name in hub.repositories:
        return 409, {**told, "error": "You already created this model repo"}, {}
    kind = asked.get("type") or "model"
    if kind == "space" and asked.get("sdk") != "gradio":
        raise RefusalError(400, "A Space must say its sdk")
    first = ("initial commit", {".gitattributes": b"*.safetensors filter=lfs\n"})
    is_private = asked.get("visibility") == "private"
    hub.repositories[name] = Repository(is_private, [first], kind=kind)
    return told


@route("POST", "/api/validate-yaml")
def validate(hub, request):
    return {"errors": [], "warnings": []}


@route("GET", "/api/(model|space)s/([^/]+/[^/]+)(?:/revision/[^/]+)?")
def info(hub, request, kind, name):
    repository = hub.repository(name, kind)
    if repository.private:
        request.role()
    siblings = [{"rfilename": file} for file in repository.files]
    told = {"id": name, "modelId": name, "private": repository.private, "sha": repository.head}
    return {**told, "siblings": siblings, "tags": []}


@route("GET", "/api/(model|space)s/([^/]+/[^/]+)/auth-check/write")
def may_write(hub, request, kind, name):
    hub.repository(name, kind)
    request.must_write(name)
    return {}


@route("POST", "/api/(model|space)s/([^/]+/[^/]+)/preupload/main")
def preupload(hub, request, kind, name):
    request.must_write(name)
    there = hub.repository(name, kind).files
    return {
        "files": [
            {
                "path": file["path"],
                "uploadMode": "lfs" if LARGE.search(file["path"]) else "regular",
                "shouldIgnore": False,
                "oid": oid_of(file["path"], there[file["path"]]) if file["path"] in there else None,
            }
            for file in request.json()["files"]
        ]
    }


@route("POST", "/(?:spaces/)?([^/]+/[^/]+).git/info/lfs/objects/batch")
def batch(hub, request, name):
    request.must_write(name)
    repository = hub.repository(name)
    return {
        "transfer": "basic",
        "objects": [offer(hub, repository, name, one) for one in request.json()["objects"]],
    }


def offer(hub, repository, name, wanted):
    oid, size = wanted["oid"], wanted["size"]
    if oid in repository.objects:
        return wanted
    place = f"{hub.url}/lfs/{name}/{oid}"
    if hub.chunk_size is None:
        upload = {"href": place}
    else:
        numbers = range(1, -(-size // hub.chunk_size) + 1)
        parts = {str(number): f"{place}/{number}" for number in numbers}
        upload = {"href": place, "header": {"chunk_size": str(hub.chunk_size), **parts}}
    return {**wanted, "actions": {"upload": upload, "verify": {"href": f"{hub.url}/verify/{name}"}}}


@route("PUT", "/lfs/([^/]+/[^/]+)/([0-9a-f]{64})")
def put_whole(hub, request, name, oid):
    return keep(hub.repository(name), oid, request.body)


@route("PUT", "/lfs/([^/]+/[^/]+)/([0-9a-f]{64})/([0-9]+)")
def put_part(hub, request, name, oid, number):
    hub.repository(name).parts[oid, int(number)] = request.body
    return 200, {}, {"ETag": hashlib.md5(request.body).hexdigest()}


@route("POST", "/lfs/([^/]+/[^/]+)/([0-9a-f]{64})")
def complete(hub, request, name, oid):
    repository = hub.repository(name)
    told = {part["partNumber"]: part["etag"] for part in request.json()["parts"]}
    parts = [repository.parts.pop((oid, number)) for number in sorted(told)]
    if [*told.values()] != [hashlib.md5(part).hexdigest() for part in parts]:
        raise RefusalError(400, "parts do not match")
    return keep(repository, oid, b"".join(parts))


def keep(repository, oid, content):
    if hashlib.sha256(content).hexdigest() != oid:
        raise RefusalError(400, "content does not match its digest")
    repository.objects[oid] = content
    return {}


@route("POST", "/verify/([^/]+/[^/]+)")
def verify(hub, request, name):
    if request.json()["oid"] not in hub.repository(name).objects:
        raise RefusalError(404, "no such object")
    return {}


@route("POST", "/api/(model|space)s/([^/]+/[^/]+)/commit/main")
def commit(hub, request, kind, name):
    request.must_write(name)
    repository = hub.repository(name, kind)
    lines = [json.loads(line) for line in request.body.splitlines()]
    header, files = lines[0]["value"], dict(repository.files)
    if header.get("parentCommit", repository.head) != repository.head:
        raise RefusalError(412, "The expected parent commit is not the head")
    for line in lines[1:]:
        value = line["value"]
        if line["key"] == "file":
            files[value["path"]] = base64.b64decode(value["content"])
        elif line["key"] == "lfsFile":
            if value["oid"] not in repository.objects:
                raise RefusalError(400, f"{value['path']} was not uploaded")
            files[value["path"]] = repository.objects[value["oid"]]
        else:
            del files[value["path"]]
    repository.commits.append((header["summary"], files))
    place = f"{hub.url}/spaces/{name}" if kind == "space" else f"{hub.url}/{name}"
    return {"commitUrl": f"{place}/commit/{repository.head}", "commitOid": repository.head}


@route("GET", "/([^/]+/[^/]+)/resolve/[^/]+/(.+)")
def resolve(hub, request, name, file):
    repository = hub.repository(name)
    if repository.private:
        request.role()
    if file not in repository.files:
        raise RefusalError(404, "Entry not found", **{"X-Error-Code": "EntryNotFound"})
    content = repository.files[file]
    return 200, content, {"ETag": f'"{oid_of(file, content)}"', "X-Repo-Commit": repository.head}
