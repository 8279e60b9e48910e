// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Line plots as SVG: axes with round steps, one colour per curve, a legend. */
#include <math.h>

#include "sim.h"

enum { WIDTH = 760, HEIGHT = 440, LEFT = 76, RIGHT = 190, TOP = 40, BOTTOM = 56, TICKS = 6 };

static const char *const colour[] = {
	"#1b6ca8", "#c8442f", "#2e8b57", "#8e44ad", "#d68910", "#117a8b", "#7f5539", "#c2185b",
};

struct curve *figure_curve(struct figure *f, const char *name, u32 room)
{
	struct curve *c = &f->curve[f->n++];

	if (f->n > ARRAY_SIZE(f->curve))
		die("too many curves in %s", f->file);
	*c = (struct curve) { .name = name, .x = zalloc(room * sizeof(double)),
			      .y = zalloc(room * sizeof(double)) };
	return c;
}

void curve_add(struct curve *c, double x, double y)
{
	c->x[c->n] = x;
	c->y[c->n++] = y;
}

/* A round number, so that about TICKS steps of it make @span. */
static double round_step(double span)
{
	double raw = span / TICKS, unit = pow(10, floor(log10(raw)));

	return unit * (raw / unit > 5 ? 10 : raw / unit > 2 ? 5 : raw / unit > 1 ? 2 : 1);
}

struct axes {
	double x0, x1, y0, y1;	/* y as drawn: its logarithm if logy */
};

static double draw_y(const struct figure *f, double y)
{
	return f->logy ? log10(max(y, 1e-9)) : y;
}

static struct axes find_axes(const struct figure *f)
{
	struct axes a = { .x0 = 0, .x1 = f->xmax, .y0 = 0, .y1 = f->ymax };
	double least = 1;
	u32 i, j;

	for (i = 0; i < f->n; i++) {
		const struct curve *c = &f->curve[i];

		for (j = 0; j < c->n; j++) {
			if (!f->xmax)
				a.x1 = max(a.x1, c->x[j]);
			if (!f->ymax)
				a.y1 = max(a.y1, c->y[j]);
			if (c->y[j] > 0)
				least = min(least, c->y[j]);
		}
	}
	if (f->logy) {
		a.y0 = floor(log10(least));
		a.y1 = ceil(log10(a.y1));
	}
	if (a.x1 <= a.x0)
		a.x1 = a.x0 + 1;
	if (a.y1 <= a.y0)
		a.y1 = a.y0 + 1;
	return a;
}

static double px(const struct axes *a, double x)
{
	return LEFT + (x - a->x0) / (a->x1 - a->x0) * (WIDTH - LEFT - RIGHT);
}

static double py(const struct axes *a, double y)
{
	return HEIGHT - BOTTOM - (y - a->y0) / (a->y1 - a->y0) * (HEIGHT - TOP - BOTTOM);
}

static void write_axes(FILE *o, const struct figure *f, const struct axes *a)
{
	double step = round_step(a->x1 - a->x0), v;

	for (v = a->x0; v <= a->x1 + step / 1000; v += step)
		fprintf(o, "<path d='M%.1f %d V%d' stroke='#ddd'/><text x='%.1f' y='%d' text-anchor='middle'>%g</text>\n",
			px(a, v), TOP, HEIGHT - BOTTOM, px(a, v), HEIGHT - BOTTOM + 18, v);
	step = f->logy ? 1 : round_step(a->y1 - a->y0);
	for (v = a->y0; v <= a->y1 + step / 1000; v += step)
		fprintf(o, "<path d='M%d %.1f H%d' stroke='#ddd'/><text x='%d' y='%.1f' text-anchor='end'>%g</text>\n",
			LEFT, py(a, v), WIDTH - RIGHT, LEFT - 6, py(a, v) + 4,
			f->logy ? pow(10, v) : v);
	fprintf(o, "<path d='M%d %d V%d H%d' fill='none' stroke='#333'/>\n", LEFT, TOP,
		HEIGHT - BOTTOM, WIDTH - RIGHT);
	fprintf(o, "<text x='%d' y='22' font-size='15'>%s</text>\n", LEFT, f->title);
	fprintf(o, "<text x='%d' y='%d' text-anchor='middle'>%s</text>\n", (LEFT + WIDTH - RIGHT) / 2,
		HEIGHT - 14, f->xlabel);
	fprintf(o, "<text transform='translate(18 %d) rotate(-90)' text-anchor='middle'>%s</text>\n",
		(TOP + HEIGHT - BOTTOM) / 2, f->ylabel);
}

static void write_curve(FILE *o, const struct figure *f, const struct axes *a, u32 nr)
{
	const struct curve *c = &f->curve[nr];
	const char *col = colour[nr % ARRAY_SIZE(colour)];
	u32 i;

	fprintf(o, "<path fill='none' stroke='%s' stroke-width='1.6' d='", col);
	for (i = 0; i < c->n && c->x[i] <= a->x1; i++)
		fprintf(o, "%s%.1f %.1f", i ? " L" : "M", px(a, c->x[i]),
			py(a, max(a->y0, min(a->y1, draw_y(f, c->y[i])))));
	fprintf(o, "'/>\n<path d='M%d %u h18' stroke='%s' stroke-width='2'/><text x='%d' y='%u'>%s</text>\n",
		WIDTH - RIGHT + 12, TOP + 12 + 20 * nr, col, WIDTH - RIGHT + 36, TOP + 16 + 20 * nr,
		c->name);
}

void figure_write(struct figure *f)
{
	struct axes a = find_axes(f);
	FILE *o = fopen(f->file, "w");
	u32 i;

	if (!o)
		die("can't write %s", f->file);
	fprintf(o, "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' font-size='12'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
		WIDTH, HEIGHT);
	write_axes(o, f, &a);
	for (i = 0; i < f->n; i++) {
		write_curve(o, f, &a, i);
		free(f->curve[i].x);
		free(f->curve[i].y);
	}
	fprintf(o, "</svg>\n");
	fclose(o);
	f->n = 0;
}
