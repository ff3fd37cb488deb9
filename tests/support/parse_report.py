"""Reads a report as an HTML parser does and prints what it finds as JSON: elements by name, attributes that could act (on...,
src, href), the title, the data, what stands in <noscript>, and the policy of the page."""
import html.parser
import json
import sys


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.elements, self.acting, self.scripts, self.open = {}, [], [], []
        self.title = self.policy = self.plain = ""

    def handle_starttag(self, tag, attributes):
        self.elements[tag] = self.elements.get(tag, 0) + 1
        given = dict(attributes)
        self.acting += [name for name in given if name.startswith("on") or name in {"src", "href", "style"}]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag not in {"meta", "link", "img", "br"}:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append([given, ""])

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts[-1][1] += data
        elif inside == "title":
            self.title += data
        elif "noscript" in self.open:
            self.plain += data


reader = Reader()
reader.feed(open(sys.argv[1], encoding="utf-8").read())
reader.close()
data = next(text for given, text in reader.scripts if given.get("id") == "data")
json.dump({"elements": reader.elements, "acting": reader.acting, "title": reader.title, "policy": reader.policy,
           "plain": reader.plain, "nonces": [given.get("nonce") for given, _ in reader.scripts],
           "still_open": reader.open, "data": json.loads(data)}, sys.stdout)
