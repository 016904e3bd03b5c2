//! A picture: an SVG body, a title, and the style that all pictures share.

use std::fmt::Write as _;

/// Width of a picture, in pixels, unless [`Picture::of_width`] sets another.
pub const WIDTH: f64 = 960.0;
/// Width of a picture for a phone, in pixels: a screen of 390 pixels draws it about as large as it is, and its
/// text of 12 pixels stays readable. It would draw text of a picture of width [`WIDTH`] with 5 pixels.
pub const NARROW_WIDTH: f64 = 340.0;
/// Space left of every plane (the rectangle in which values are drawn), in pixels, for the labels of
/// its values. Titles and legends start at the left edge of the plane.
pub const LEFT: f64 = 72.0;
/// The same space in a picture of width [`NARROW_WIDTH`], in pixels: enough for labels of six characters.
pub const NARROW_LEFT: f64 = 52.0;
/// Space to the right of every plane, in pixels.
pub const RIGHT: f64 = 20.0;

/// Colours of lines, areas and entries of legends. The first four are distinct under colour
/// blindness, too.
pub const COLOURS: [&str; 8] = [
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5",
];

/// The style sheet of all pictures.
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#5b6775}\
    .title{font-weight:600;fill:#1d2733}.grid{stroke:#dfe4ea}\
    .curve{fill:none;stroke-width:1.6}.level{stroke:#1d2733;stroke-dasharray:2 4}\
    .mark{stroke-width:1.2;stroke-dasharray:5 4}";

/// A picture that is being drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    title: String,
    width: f64,
    height: f64,
    /// The SVG elements that were drawn so far.
    pub body: String,
}

impl Picture {
    /// Creates a picture of `height` pixels, with its title at the top left.
    #[must_use]
    pub fn new(title: &str, height: f64) -> Self {
        let mut picture = Self::untitled(title, height);
        let escaped = escape(title);
        text(
            &mut picture.body,
            (LEFT, 16.0),
            r#"class="title""#,
            &escaped,
        );
        picture
    }

    /// Creates a picture whose title is not drawn: only screen readers get it.
    #[must_use]
    pub fn untitled(title: &str, height: f64) -> Self {
        Self {
            title: title.into(),
            width: WIDTH,
            height,
            body: String::new(),
        }
    }

    /// Makes the picture `width` pixels wide, in place of [`WIDTH`].
    #[must_use]
    pub fn of_width(mut self, width: f64) -> Self {
        self.width = width;
        self
    }

    /// Draws a legend below the title: for each name a square of its colour, followed by the name.
    pub fn legend<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        let mut x = LEFT;
        for (name, colour) in names.zip(COLOURS.iter().cycle()) {
            let _ = write!(
                self.body,
                r#"<rect x="{x:.0}" y="24" width="10" height="10" fill="{colour}"/>"#
            );
            text(&mut self.body, (x + 14.0, 33.0), "", &escape(name));
            x += 32.0 + 7.0 * name.chars().count() as f64;
        }
    }

    /// Returns the picture as an SVG file of its own, with its own colours and background.
    #[must_use]
    pub fn to_svg(&self) -> String {
        self.to_svg_with("")
    }

    /// Returns the picture as an SVG file, with `style` added to the style sheet: rules for classes
    /// that only this picture uses.
    #[must_use]
    pub fn to_svg_with(&self, style: &str) -> String {
        let ground = r##"<rect width="100%" height="100%" fill="#fff"/>"##;
        let head = format!("<style>{STYLE}{style}</style>{ground}");
        self.element(r#" xmlns="http://www.w3.org/2000/svg""#, &head) + "\n"
    }

    /// Returns the picture as an element of a page, which the page's style sheet formats.
    #[must_use]
    pub fn to_html(&self) -> String {
        self.element("", "")
    }

    fn element(&self, attributes: &str, head: &str) -> String {
        format!(
            r#"<svg{attributes} viewBox="0 0 {} {}" role="img" aria-label="{}">{head}{}</svg>"#,
            self.width,
            self.height,
            escape(&self.title),
            self.body
        )
    }
}

/// Draws text at the point (`x`, `y`), in pixels. `escaped` is the text, already escaped by
/// `escape`; `how` has more attributes of the SVG element.
pub fn text(svg: &mut String, (x, y): (f64, f64), how: &str, escaped: &str) {
    let _ = write!(svg, r#"<text x="{x:.1}" y="{y:.1}" {how}>{escaped}</text>"#);
}

/// Escapes text for a place between tags or in an attribute.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_picture_in_a_file_of_its_own_has_a_style_sheet() {
        let mut picture = Picture::new("a < b & \"c\"", 100.0);
        picture.legend(["x > y"].into_iter());
        let alone = picture.to_svg_with(".own{fill:red}");
        assert!(alone.starts_with("<svg xmlns=") && alone.ends_with("</svg>\n"));
        assert!(alone.contains(".own{fill:red}</style><rect"), "{alone}");
        let within = picture.to_html();
        assert!(within.starts_with("<svg viewBox=") && !within.contains("<style>"));
        for svg in [alone, within] {
            assert_eq!(svg.matches("a &lt; b &amp; &quot;c&quot;").count(), 2);
            assert!(svg.contains(">x &gt; y</text>"), "{svg}");
        }
    }
}
