/* Panels below each other, each with axes and a legend at its right. */
#include "tools/plot.h"

#include <math.h>
#include <string.h>

#include "base/plain.h"

enum { WIDTH = 860, HEIGHT = 260, LEFT = 70, RIGHT = 640, TOP = 34, BOTTOM = 40, LEGEND = 18, TICKS = 6 };

static const char *const colours[] = {"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728",
                                      "#9467bd", "#8c564b", "#e377c2", "#17becf"};
#define COLOURS (int)(sizeof(colours) / sizeof(colours[0]))

struct frame {
    struct ls_plot_range x, y;
    double top, bottom; /* of the field of curves */
};

static void put_text(FILE *out, const char *text) {
    for (; *text; text++) {
        const char *name = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : NULL;
        bool control = (unsigned char)*text < ' '; /* XML has none */
        if (name)
            (void)fputs(name, out);
        else
            (void)fputc(control ? ' ' : *text, out);
    }
}

/* In hundredths of a pixel. */
static double place_of(double place) {
    return round(place * 100) / 100;
}

static double across(const struct frame *frame, double x) {
    return LEFT + (x - frame->x.low) / (frame->x.high - frame->x.low) * (RIGHT - LEFT);
}

static double down(const struct frame *frame, double y) {
    return frame->bottom - (y - frame->y.low) / (frame->y.high - frame->y.low) * (frame->bottom - frame->top);
}

static void put_line(FILE *out, double x0, double y0, double x1, double y1) {
    (void)ls_plain_print(out, "<line class=\"grid\" x1=\"%.9g\" y1=\"%.9g\" x2=\"%.9g\" y2=\"%.9g\"/>\n", place_of(x0),
                         place_of(y0), place_of(x1), place_of(y1));
}

static void put_label(FILE *out, double x, double y, const char *class, const char *text) {
    (void)ls_plain_print(out, "<text class=\"%s\" x=\"%.9g\" y=\"%.9g\">", class, place_of(x), place_of(y));
    put_text(out, text);
    (void)fputs("</text>\n", out);
}

/* The number of a tick, one after the other; false behind the last one. There is an end where numbers are so large that
 * steps between them vanish. */
static bool next_tick(struct ls_plot_range range, double step, int *count, double *tick) {
    *tick = (ceil(range.low / step) + *count) * step;
    return (*count)++ <= 3 * TICKS && *tick <= range.high;
}

static void put_axes(FILE *out, const struct frame *frame) {
    char text[32];
    int count = 0;
    for (double tick; next_tick(frame->y, ls_plot_step(frame->y, TICKS), &count, &tick);) {
        ls_plot_number(tick, text, sizeof(text));
        put_line(out, LEFT, down(frame, tick), RIGHT, down(frame, tick));
        put_label(out, LEFT - 6, down(frame, tick) + 4, "end", text);
    }
    count = 0;
    for (double tick; next_tick(frame->x, fmax(ls_plot_step(frame->x, 2 * TICKS), 1), &count, &tick);) {
        ls_plot_number(tick, text, sizeof(text));
        put_line(out, across(frame, tick), frame->top, across(frame, tick), frame->bottom);
        put_label(out, across(frame, tick), frame->bottom + 16, "middle", text);
    }
}

static void put_style(FILE *out, const struct ls_plot_curve *curve, int colour) {
    (void)fprintf(out, "stroke=\"%s\"%s", colours[colour % COLOURS],
                  ls_plot_validates(curve) ? " stroke-dasharray=\"6 3\"" : "");
}

static void put_curve(FILE *out, const struct frame *frame, const struct ls_plot_curve *curve, int colour) {
    (void)fputs("<path class=\"curve\" ", out);
    put_style(out, curve, colour);
    (void)fputs(" d=\"", out);
    for (int64_t i = 0; i < curve->count; i++) {
        if (!isfinite(curve->y[i]) || !isfinite(curve->x[i])) continue;
        bool on = ls_plot_goes_on(curve, i); /* a point alone is a dot */
        (void)ls_plain_print(out, on ? "L%.9g %.9g" : "M%.9g %.9gh0", place_of(across(frame, curve->x[i])),
                             place_of(down(frame, curve->y[i])));
    }
    (void)fputs("\"/>\n", out);
}

static void put_legend(FILE *out, const struct ls_plot *plot, const struct ls_plot_curve *curve, int colour, double y) {
    char label[300];
    ls_plot_label(plot, curve, label, sizeof(label));
    (void)fprintf(out, "<path class=\"curve\" ");
    put_style(out, curve, colour);
    (void)ls_plain_print(out, " d=\"M%d %.9gh22\"/>\n", RIGHT + 14, place_of(y));
    put_label(out, RIGHT + 42, y + 4, "start", label);
}

static int count_curves(const struct ls_plot *plot, int panel) {
    int count = 0;
    for (int i = 0; i < plot->count; i++) count += plot->curves[i].panel == panel;
    return count;
}

static double height_of(const struct ls_plot *plot, int panel) {
    return fmax(HEIGHT, TOP + BOTTOM + LEGEND * count_curves(plot, panel));
}

/* With several files a file has one colour, else a curve. */
static void put_panel(FILE *out, const struct ls_plot *plot, int panel, double top) {
    const struct frame frame = {ls_plot_range_of(plot, panel, true), ls_plot_range_of(plot, panel, false), top + TOP,
                                top + height_of(plot, panel) - BOTTOM};
    put_label(out, LEFT, top + TOP - 12, "title", plot->panels[panel]);
    put_axes(out, &frame);
    put_label(out, (LEFT + RIGHT) / 2.0, frame.bottom + 32, "middle", plot->epochs ? "epoch" : "row");
    for (int i = 0, place = 0; i < plot->count; i++) {
        const struct ls_plot_curve *curve = &plot->curves[i];
        if (curve->panel != panel) continue;
        int colour = plot->path_count > 1 ? curve->file : place;
        put_curve(out, &frame, curve, colour);
        put_legend(out, plot, curve, colour, frame.top + 8 + LEGEND * place++);
    }
}

void ls_plot_svg(const struct ls_plot *plot, FILE *out) {
    double height = 0;
    for (int i = 0; i < plot->panel_count; i++) height += height_of(plot, i);
    (void)fprintf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n",
                  WIDTH, height, WIDTH, height);
    (void)fputs("<style>text{font:12px sans-serif;fill:#333}.end{text-anchor:end}.middle{text-anchor:middle}"
                ".title{font-weight:bold;font-size:14px}.grid{stroke:#ddd}.curve{fill:none;stroke-width:1.8;"
                "stroke-linecap:round}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                out);
    double top = 0;
    for (int i = 0; i < plot->panel_count; i++) {
        put_panel(out, plot, i, top);
        top += height_of(plot, i);
    }
    (void)fputs("</svg>\n", out);
}
