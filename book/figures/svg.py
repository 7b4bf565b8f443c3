"""Pictures for the book: boxes, arrows and text as SVG, readable in light and dark pages and on a phone."""

from html import escape

# Colour-blind safe (Okabe and Ito).
BLUE, ORANGE, GREEN, RED, GREY = "#a6cee8", "#f3c67a", "#8fd3b6", "#eda58d", "#e3e3e3"
INK = "#222222"


class Picture:
    """A picture of `width` × `height` units; a page shows at most 480 of them without scaling."""

    def __init__(self, width, height, title):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="sans-serif" font-size="14" fill="{INK}">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>',
        ]

    def box(self, x, y, width, height, text="", colour=GREY, size=14):
        """A box with centred text."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="2" fill="{colour}" stroke="{INK}"/>'
        )
        if text != "":
            self.text(x + width / 2, y + height / 2 + size * 0.35, text, "middle", size)

    def row(self, x, y, cell, texts, colours, size=12):
        """A row of square boxes; `colours` is one colour or one for each."""
        for i, text in enumerate(texts):
            self.box(x + i * cell, y, cell, cell, text, colours if isinstance(colours, str) else colours[i], size)

    def text(self, x, y, text, anchor="start", size=14):
        """A line of text; `anchor` is start, middle or end."""
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}">{escape(str(text))}</text>')

    def arrow(self, x1, y1, x2, y2):
        """An arrow."""
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{INK}" stroke-width="1.2" marker-end="url(#tip)"/>'
        )

    def line(self, x1, y1, x2, y2, colour=INK, width=2):
        """A line without a tip."""
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="{width}"/>'
        )

    def route(self, *points):
        """An arrow with corners."""
        path = " ".join(f"{x},{y}" for x, y in points)
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.2" marker-end="url(#tip)"/>'
        )

    def write(self, path):
        """Writes the picture."""
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([*self.parts, "</svg>", ""]))
