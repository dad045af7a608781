/* The page holds the spans as an array and a script that draws them: wheel, drag and double click zoom and move. */
#include "observe/timeline.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/text.h"

static const char head[] =
    "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>Lockstep timeline</title>\n"
    "<style>body{font:13px sans-serif;margin:12px}canvas{width:100%;border:1px solid #ccc;cursor:grab}"
    "#tip{position:fixed;pointer-events:none;background:#fffe;border:1px solid #888;padding:4px;white-space:pre}"
    "td,th{padding:2px 10px;text-align:right}td:first-child{text-align:left}</style></head><body>\n"
    "<p>Wheel: zoom. Drag: move. Double click: all. Point at a bar for its numbers.</p>\n"
    "<canvas id=\"view\"></canvas><div id=\"tip\" hidden></div><table id=\"sums\"></table>\n"
    "<noscript>This page draws with a script of its own.</noscript>\n<script>\nconst rows = ";

/* rows: [{name, spans: [[name, begun, duration, args]]}], times in ns. */
static const char script[] =
    ";\n"
    "const canvas = document.getElementById('view'), tip = document.getElementById('tip'), LEFT = 170, BAR = 16;\n"
    "let end = 1, tall = 30;\n"
    "for (const row of rows) {\n"
    "  const lanes = [];\n"
    "  row.name += row.thread ? ', ' + row.thread : '';\n"
    "  row.spans.sort((a, b) => a[1] - b[1] || b[2] - a[2]);\n"
    "  for (const span of row.spans) {\n"
    "    let lane = lanes.findIndex(until => until <= span[1]);\n"
    "    if (lane < 0) lane = lanes.length;\n"
    "    lanes[lane] = span[1] + span[2];\n"
    "    span[4] = lane;\n"
    "    end = Math.max(end, lanes[lane]);\n"
    "  }\n"
    "  row.top = tall;\n"
    "  tall += BAR * Math.max(lanes.length, 1) + 8;\n"
    "}\n"
    "let from = 0, to = end, drag = null;\n"
    "const place = time => LEFT + (time - from) / (to - from) * (canvas.clientWidth - LEFT);\n"
    "const when = x => from + (x - LEFT) / (canvas.clientWidth - LEFT) * (to - from);\n"
    "const text = ns => ns >= 1e9 ? (ns / 1e9).toFixed(3) + ' s' : ns >= 1e6 ? (ns / 1e6).toFixed(3) + ' ms' : "
    "(ns / 1e3).toFixed(1) + ' \\u00b5s';\n"
    "const colour = name => {\n"
    "  let hash = 0;\n"
    "  for (const c of name) hash = (hash * 31 + c.charCodeAt(0)) % 360;\n"
    "  return 'hsl(' + hash + ',55%,72%)';\n"
    "};\n"
    "function draw() {\n"
    "  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, pen = canvas.getContext('2d');\n"
    "  canvas.style.height = tall + 'px';\n"
    "  canvas.width = width * scale; canvas.height = tall * scale;\n"
    "  pen.scale(scale, scale);\n"
    "  pen.font = '12px sans-serif';\n"
    "  const step = 10 ** Math.floor(Math.log10((to - from) / 4));\n"
    "  for (let time = Math.ceil(from / step) * step; time < to; time += step) {\n"
    "    pen.fillStyle = '#ddd'; pen.fillRect(place(time), 14, 1, tall);\n"
    "    if (Math.round(time / step) % 5 === 0) { pen.fillStyle = '#333'; pen.fillText(text(time), place(time), 11); "
    "}\n"
    "  }\n"
    "  for (const row of rows) {\n"
    "    for (const [name, begun, duration, , lane] of row.spans) {\n"
    "      if (begun + duration < from || begun > to) continue;\n"
    "      const x = Math.max(place(begun), LEFT), wide = Math.max(Math.min(place(begun + duration), width) - x, "
    "0.5);\n"
    "      pen.fillStyle = colour(name);\n"
    "      pen.fillRect(x, row.top + lane * BAR, wide, BAR - 2);\n"
    "      if (wide < 30) continue;\n"
    "      pen.save(); pen.beginPath(); pen.rect(x, row.top + lane * BAR, wide, BAR); pen.clip();\n"
    "      pen.fillStyle = '#000'; pen.fillText(name, x + 3, row.top + lane * BAR + 11); pen.restore();\n"
    "    }\n"
    "    pen.fillStyle = '#fff'; pen.fillRect(0, row.top - 4, LEFT - 2, BAR + 4);\n"
    "    pen.fillStyle = '#000'; pen.fillText(row.name, 4, row.top + 11);\n"
    "  }\n"
    "}\n"
    "function show(low, high) {\n"
    "  const wide = Math.min(Math.max(high - low, 100), end);\n"
    "  from = Math.min(Math.max(low, 0), end - wide); to = from + wide;\n"
    "  draw();\n"
    "}\n"
    "function found(event) {\n"
    "  const box = canvas.getBoundingClientRect(), time = when(event.clientX - box.left), y = event.clientY - "
    "box.top;\n"
    "  const slack = (to - from) / canvas.clientWidth;\n"
    "  for (const row of rows) for (const span of row.spans)\n"
    "    if (y >= row.top + span[4] * BAR && y < row.top + span[4] * BAR + BAR && time >= span[1] - slack &&\n"
    "        time <= span[1] + span[2] + slack) return [row, span];\n"
    "  return null;\n"
    "}\n"
    "canvas.onwheel = event => {\n"
    "  event.preventDefault();\n"
    "  const at = when(event.clientX - canvas.getBoundingClientRect().left), times = Math.exp(event.deltaY / 400);\n"
    "  show(at - (at - from) * times, at + (to - at) * times);\n"
    "};\n"
    "canvas.onmousedown = event => { drag = [event.clientX, from, to]; };\n"
    "window.onmouseup = () => { drag = null; };\n"
    "canvas.onmouseleave = () => { tip.hidden = true; };\n"
    "canvas.ondblclick = () => show(0, end);\n"
    "canvas.onmousemove = event => {\n"
    "  if (drag) {\n"
    "    const by = (event.clientX - drag[0]) / (canvas.clientWidth - LEFT) * (drag[2] - drag[1]);\n"
    "    show(drag[1] - by, drag[2] - by);\n"
    "  }\n"
    "  const hit = drag ? null : found(event);\n"
    "  tip.hidden = !hit;\n"
    "  if (!hit) return;\n"
    "  const [row, [name, begun, duration, args]] = hit;\n"
    "  tip.textContent = [row.name + ': ' + name, 'at ' + text(begun) + ', for ' + text(duration),\n"
    "    ...Object.entries(args).map(([key, value]) => key + ' ' + value)].join('\\n');\n"
    "  tip.style.left = Math.min(event.clientX + 12, innerWidth - 260) + 'px'; tip.style.top = event.clientY + 12 + "
    "'px';\n"
    "};\n"
    "const sums = new Map();\n"
    "for (const row of rows) for (const [name, , duration] of row.spans) {\n"
    "  const sum = sums.get(name) || [0, 0, 0];\n"
    "  sums.set(name, [sum[0] + 1, sum[1] + duration, Math.max(sum[2], duration)]);\n"
    "}\n"
    "const line = (cells, kind) => {\n"
    "  const row = document.getElementById('sums').insertRow();\n"
    "  for (const cell of cells) row.appendChild(document.createElement(kind)).textContent = cell;\n"
    "};\n"
    "line(['what', 'times', 'together', 'mean', 'longest'], 'th');\n"
    "for (const [name, [count, all, most]] of [...sums].sort((a, b) => b[1][1] - a[1][1]).slice(0, 40))\n"
    "  line([name, count, text(all), text(all / count), text(most)], 'td');\n"
    "window.onresize = draw;\n"
    "draw();\n"
    "</script></body></html>\n";

/* The first time of all. */
static int64_t find_begin(const struct ls_timeline *timeline) {
    int64_t begin = INT64_MAX;
    for (int i = 0; i < timeline->file_count; i++) {
        const struct ls_timeline_file *file = &timeline->files[i];
        for (size_t j = 0; j < file->span_count; j++) {
            int64_t at = file->spans[j].begun + timeline->ranks[file->rank].offset;
            if (at < begin) begin = at;
        }
    }
    return begin;
}

static const char *thread_of(const struct ls_timeline_file *file, int tid) {
    for (size_t i = 0; i < file->thread_count; i++)
        if (file->threads[i].tid == tid) return file->threads[i].name;
    return "";
}

/* True if no span before that one is of its thread. */
static bool is_first(const struct ls_timeline_file *file, size_t span) {
    for (size_t i = span; i-- > 0;) /* most often the one just before is */
        if (file->spans[i].tid == file->spans[span].tid) return false;
    return true;
}

static void put_thread(const struct ls_timeline *timeline, const struct ls_timeline_file *file, int tid, int64_t begin,
                       FILE *out) {
    int64_t offset = timeline->ranks[file->rank].offset;
    bool any = false;
    ls_json_print(out, "{'name': 'rank %d%-s', 'thread': %s, 'spans': [", file->rank,
                  file->is_flight ? " (flight)" : "", thread_of(file, tid));
    for (size_t i = 0; i < file->span_count; i++) {
        const struct ls_timeline_span *span = &file->spans[i];
        if (span->tid != tid) continue;
        ls_json_print(out, "%-s\n[%s, %lld, %lld, %-s]", any ? "," : "", span->name,
                      (long long)(span->begun + offset - begin), (long long)(span->ended - span->begun), span->args);
        any = true;
    }
    (void)fputs("]}", out);
}

static void put_rows(const struct ls_timeline *timeline, FILE *out) {
    int64_t begin = find_begin(timeline);
    bool any = false;
    (void)fputc('[', out);
    for (int i = 0; i < timeline->file_count; i++) {
        const struct ls_timeline_file *file = &timeline->files[i];
        for (size_t j = 0; j < file->span_count; j++) {
            if (!is_first(file, j)) continue;
            if (any) (void)fputs(",\n", out);
            put_thread(timeline, file, file->spans[j].tid, begin, out);
            any = true;
        }
    }
    (void)fputs("]", out);
}

/* Within a script: no tag can end it where no '<' is. JSON has it in strings alone. */
void ls_timeline_page_print(const struct ls_timeline *timeline, FILE *out) {
    char *text = NULL;
    bool good = !LS_TEXT(json, put_rows(timeline, json), "a page", &text);
    (void)fputs(head, out);
    for (const char *at = text; good && *at; at++) (void)fprintf(out, *at == '<' ? "\\u003c" : "%c", *at);
    (void)fputs(good ? script : "[]", out);
    free(text);
}
