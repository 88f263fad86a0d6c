"""Renders templates and snippets with transformers and jinja2 into templates.json, which chat_template_test.cc reads.

    python tests/golden/make_templates.py                 # tests/golden/templates.json
    python tests/golden/make_templates.py DIR OUT.json    # every *.jinja of another folder, e.g. of models at hand

Every case has the template (or the name of a file of templates/), the messages and options, and either the "text" that
Python renders or the "error" that it raises. Needs transformers >= 5 and jinja2 >= 3.1.6.
"""

import datetime
import json
import pathlib
import sys

from transformers.utils import chat_template_utils

from template_cases import CONVERSATIONS, OPTIONS, SNIPPETS, SNIPPET_MESSAGES, SNIPPET_VARIABLES

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2024, 7, 26, 12, 34, 56)


class FixedTime:
    @staticmethod
    def now():
        return NOW


chat_template_utils.datetime = FixedTime


def render(source, messages, options):
    try:
        rendered, _ = chat_template_utils.render_jinja_template([json.loads(json.dumps(messages))], chat_template=source, **options)
        return {"text": rendered[0]}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)[:200]}


def template_cases(folder):
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_bytes().decode()
        for name, messages in CONVERSATIONS.items():
            for variant, options in OPTIONS.items():
                if options.get("continue_final_message") and messages[-1]["role"] != "assistant":
                    continue
                case = {"file": path.name, "conversation": name, "options": variant}
                yield case | render(source, messages, options)


def snippet_cases():
    for source in SNIPPETS:
        yield {"template": source} | render(source, SNIPPET_MESSAGES, SNIPPET_VARIABLES)


def main():
    golden = {"conversations": CONVERSATIONS, "options": OPTIONS, "snippet_messages": SNIPPET_MESSAGES,
              "snippet_variables": SNIPPET_VARIABLES}
    if len(sys.argv) == 3:
        golden["templates"] = list(template_cases(pathlib.Path(sys.argv[1])))
        golden["snippets"] = []
        out = pathlib.Path(sys.argv[2])
    else:
        golden["templates"] = list(template_cases(HERE / "templates"))
        golden["snippets"] = list(snippet_cases())
        out = HERE / "templates.json"
    out.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")
    failed = [case for case in golden["templates"] + golden["snippets"] if "error" in case]
    print(f"{len(golden['templates'])} renderings and {len(golden['snippets'])} snippets, {len(failed)} of them refused")


if __name__ == "__main__":
    main()
