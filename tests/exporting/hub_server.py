"""A small Hub for tests, run as a program of its own: kernel repositories in memory, for the real huggingface_hub and kernels clients.

It speaks the part of the Hub's protocol that those clients use: create, branches, refs, tree, preupload, large files, commit, resolve.
What it does not show is whether the real Hub takes our account or card; a live test is for that (AUTOKERNEL_LIVE_HUB).

`python hub_server.py`: prints the port, serves until stdin closes. `POST /control` with JSON sets `faults`: "create": status for creating,
"commit": status for committing to a branch other than main, "hang": never answer the upload of a large file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_right"
LARGE = (".so",)  # what .gitattributes would send by LFS
LOCK = threading.RLock()


def identity(path, content):
    """A file's id as the Hub names it: SHA-256 of large files, git's blob id of others."""
    if path.endswith(LARGE):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Repo:
    def __init__(self, private):
        self.private = private
        self.commits = {}  # oid -> {path: bytes}
        self.branches = {}
        self.blobs = {}  # sha256 -> bytes, uploaded large files
        self.log = []  # (branch, message), as they were made
        self.commit("main", {".gitattributes": b"*.so filter=lfs\n"}, "initial commit")

    def commit(self, branch, files, message):
        parent = self.branches.get(branch, "")
        content = sorted((path, hashlib.sha1(data).hexdigest()) for path, data in files.items())
        oid = hashlib.sha1(f"{parent}{branch}{message}{content}".encode()).hexdigest()
        self.commits[oid] = dict(files)
        self.branches[branch] = oid
        self.log.append((branch, message))
        return oid

    def at(self, revision):
        name = revision.removeprefix("refs/heads/")
        return self.branches.get(name) or (revision if revision in self.commits else None)


REPOS: dict[str, Repo] = {}
STATE = {"faults": {}, "requests": []}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, value=None, headers=()):
        data = value if isinstance(value, bytes) else json.dumps({} if value is None else value).encode()
        self.send_response(status)
        for name, text in headers:
            self.send_header(name, text)
        self.send_header("Content-Type", "application/octet-stream" if isinstance(value, bytes) else "application/json")
        if self.command != "HEAD" or not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def error(self, status, code, text):
        self.answer(status, {"error": text}, [("X-Error-Code", code), ("X-Error-Message", text)] if code else [("X-Error-Message", text)])

    def body(self):
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def serve(self):
        url = urlsplit(self.path)
        data = self.body()
        with LOCK:
            STATE["requests"].append(f"{self.command} {url.path}")
            if not (STATE["faults"].get("hang") and url.path.startswith("/blob/")):
                return self.route(url.path, parse_qs(url.query), data)
        return time.sleep(60)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = serve

    def route(self, path, query, data):
        if path == "/control":
            STATE["faults"] = json.loads(data).get("faults", {})
            return self.answer(200, {"requests": STATE["requests"], "repos": {
                name: {"private": r.private, "log": r.log, "branches": {b: sorted(r.commits[o]) for b, o in r.branches.items()}}
                for name, r in REPOS.items()}})
        sent = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if sent and sent != TOKEN:
            return self.error(401, "", "Invalid username or password.")
        if path == "/api/repos/create":
            return self.create(json.loads(data), sent)
        if path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        if match := re.fullmatch(r"/blob/([^/]+/[^/]+)/(\w+)", path):
            REPOS[match[1]].blobs[match[2]] = data
            return self.answer(200)
        if match := re.fullmatch(r"/kernels/([^/]+/[^/]+?)(\.git)?/(resolve|info)/(.+)", path):
            if match[3] == "info":
                return self.batch(match[1], json.loads(data))
            return self.resolve(match[1], match[4])
        if match := re.fullmatch(r"/api/kernels/([^/]+/[^/]+)(/.*)?", path):
            return self.repo(match[1], match[2] or "", query, data, sent)
        return self.error(404, "", f"no such path {path}")

    def create(self, asked, sent):
        if not sent:
            return self.error(401, "", "Invalid username or password.")
        if status := STATE["faults"].get("create"):
            return self.error(status, "", "You don't have the rights to create a kernel under this namespace")
        name = f"{asked['organization']}/{asked['name']}"
        if asked["type"] != "kernel":
            return self.error(400, "", "only kernels here")
        url = {"url": f"http://{self.headers['Host']}/kernels/{name}"}
        if name in REPOS:
            return self.answer(409, {"error": "exists", **url})
        REPOS[name] = Repo(asked.get("visibility") == "private" or asked.get("private", False))
        return self.answer(200, url)

    def found(self, name, revision):
        repo = REPOS.get(name)
        if repo is None:
            self.error(404, "RepoNotFound", "Repository not found")
            return None, None
        oid = repo.at(unquote(revision))
        if oid is None:
            self.error(404, "RevisionNotFound", f"no revision {revision}")
            return None, None
        return repo, oid

    def repo(self, name, rest, query, data, sent):
        if name not in REPOS:  # to nobody the Hub does not say which names are free
            return self.error(404, "RepoNotFound", "Repository not found") if sent else self.error(401, "", "Invalid username or password.")
        repo = REPOS[name]
        if rest == "/refs":
            branches = [{"name": b, "ref": f"refs/heads/{b}", "targetCommit": oid} for b, oid in repo.branches.items()]
            return self.answer(200, {"branches": branches, "converts": [], "tags": []})
        if match := re.fullmatch(r"/branch/(.+)", rest):
            if unquote(match[1]) in repo.branches:
                return self.answer(409, {"error": "exists"})
            repo.branches[unquote(match[1])] = repo.branches["main"]
            return self.answer(200)
        if match := re.fullmatch(r"/tree/([^/]+)(/.*)?", rest):
            return self.tree(name, match[1], unquote(match[2] or "").strip("/"), query)
        if match := re.fullmatch(r"(?:/revision/([^/]+))?", rest):
            repo, oid = self.found(name, match[1] or "main")
            return None if repo is None else self.answer(200, {"id": name, "sha": oid, "private": repo.private,
                                                               "siblings": [{"rfilename": p} for p in repo.commits[oid]]})
        if match := re.fullmatch(r"/preupload/(.+)", rest):
            there = repo.commits[repo.branches[unquote(match[1])]]
            files = [{"path": f["path"], "shouldIgnore": False, "uploadMode": "lfs" if f["path"].endswith(LARGE) else "regular",
                      **({"oid": identity(f["path"], there[f["path"]])} if f["path"] in there else {})} for f in json.loads(data)["files"]]
            return self.answer(200, {"files": files})
        if match := re.fullmatch(r"/commit/(.+)", rest):
            return self.commit(name, repo, unquote(match[1]), data, sent)
        return self.error(404, "", f"no such path {rest}")

    def tree(self, name, revision, folder, query):
        repo, oid = self.found(name, revision)
        if repo is None:
            return None
        files, start = repo.commits[oid], f"{folder}/" if folder else ""
        inside = {p: d for p, d in files.items() if p.startswith(start)}
        if folder and not inside:
            return self.error(404, "EntryNotFound", f"no entry {folder}")
        recursive = query.get("recursive", ["false"])[0].lower() in ("true", "1")
        entries, folders = [], set()
        for path, content in sorted(inside.items()):
            parts = path.removeprefix(start).split("/")
            for depth in range(1, len(parts)):
                folders.add(start + "/".join(parts[:depth]))
            if recursive or len(parts) == 1:
                entries.append({"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()})
        shown = folders if recursive else {f for f in folders if "/" not in f.removeprefix(start)}
        return self.answer(200, [*({"type": "directory", "path": f, "size": 0, "oid": "0" * 40} for f in sorted(shown)), *entries])

    def batch(self, name, asked):
        repo = REPOS[name]
        objects = [{"oid": o["oid"], "size": o["size"], **({} if o["oid"] in repo.blobs else
                    {"actions": {"upload": {"href": f"http://{self.headers['Host']}/blob/{name}/{o['oid']}"}}})} for o in asked["objects"]]
        return self.answer(200, {"transfer": "basic", "objects": objects})

    def commit(self, name, repo, branch, data, sent):
        if not sent:
            return self.error(401, "", "Invalid username or password.")
        if branch not in repo.branches:
            return self.error(404, "RevisionNotFound", f"no branch {branch}")
        status = STATE["faults"].get("commit")
        if status and branch != "main":
            return self.error(status, "", "not now")
        files, message = dict(repo.commits[repo.branches[branch]]), ""
        for line in data.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                message = value["summary"]
            elif entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = repo.blobs[value["oid"]]
            elif entry["key"] == "deletedFile":
                del files[value["path"]]
        oid = repo.commit(branch, files, message)
        return self.answer(200, {"success": True, "commitOid": oid, "commitUrl": f"http://{self.headers['Host']}/kernels/{name}/commit/{oid}"})

    def resolve(self, name, rest):
        revision, _, path = rest.partition("/")
        repo, oid = self.found(name, revision)
        if repo is None:
            return None
        content = repo.commits[oid].get(unquote(path))
        if content is None:
            return self.error(404, "EntryNotFound", f"no entry {path}")
        etag = hashlib.sha256(content).hexdigest()
        headers = [("ETag", f'"{etag}"'), ("X-Repo-Commit", oid)]
        if path.endswith(LARGE):
            headers += [("X-Linked-ETag", f'"{etag}"'), ("X-Linked-Size", str(len(content)))]
        if self.command == "HEAD":
            headers.append(("Content-Length", str(len(content))))
        return self.answer(200, content, headers)


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
