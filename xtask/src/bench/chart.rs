//! A bar chart as SVG: for each measure, upstream is one and we are a fraction of it.

use std::fmt::Write as _;

use super::report::Line;

/// A measure and how both did.
pub(crate) struct Bar {
    what: String,
    upstream: String,
    flyball: String,
    ratio: Option<f64>,
}

impl From<Line> for Bar {
    fn from(line: Line) -> Self {
        let ratio = line.ratio();
        let (upstream, flyball) = (line.unit.show(line.upstream), line.unit.show(line.flyball));
        Self { what: line.what, upstream, flyball, ratio }
    }
}

const WIDTH: f64 = 860.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 70.0;
const ROW: f64 = 38.0;
const THICK: f64 = 13.0;

/// The whole SVG document. It has a background of its own, so that it is legible on dark pages, too.
pub(crate) fn draw(title: &str, note: &str, bars: &[Bar]) -> String {
    let height = TOP + ROW * bars.len() as f64 + 20.0;
    // The axis ends at upstream's length or ours, whichever is longer; a runaway ratio is cut off.
    let longest = bars.iter().filter_map(|bar| bar.ratio).fold(1.0_f64, f64::max).min(3.0);
    let scale = (WIDTH - LEFT - RIGHT) / longest;
    let mut out = String::new();
    let _ = writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12" role="img">
<title>{title}</title>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="16" y="26" font-size="16" font-weight="600" fill="#1a1a1a">{title}</text>
<text x="16" y="46" fill="#666666">{note}</text>
<rect x="{legend}" y="36" width="10" height="10" fill="#b8bec6"/><text x="{legend_text}" y="45" fill="#333333">upstream</text>
<rect x="{legend2}" y="36" width="10" height="10" fill="#2f6fdf"/><text x="{legend2_text}" y="45" fill="#333333">flyball</text>"##,
        title = escape(title),
        note = escape(note),
        legend = WIDTH - 170.0,
        legend_text = WIDTH - 155.0,
        legend2 = WIDTH - 85.0,
        legend2_text = WIDTH - 70.0,
    );
    for (index, bar) in bars.iter().enumerate() {
        row(&mut out, bar, TOP + ROW * index as f64, scale, longest);
    }
    let one = LEFT + scale;
    let bottom = height - 16.0;
    let _ = writeln!(
        out,
        r##"<line x1="{one:.1}" y1="{top}" x2="{one:.1}" y2="{bottom}" stroke="#d04040" stroke-dasharray="3 3"/>
</svg>"##,
        top = TOP - 8.0,
    );
    out
}

fn row(out: &mut String, bar: &Bar, y: f64, scale: f64, longest: f64) {
    let ratio = bar.ratio.unwrap_or(0.0);
    let (upstream, flyball) = (scale, scale * ratio.min(longest));
    let shown = bar.ratio.map_or(String::new(), |ratio| format!(" ({ratio:.2}×)"));
    let _ = writeln!(
        out,
        r##"<text x="{label:.1}" y="{label_y:.1}" text-anchor="end" fill="#333333">{what}</text>
<rect x="{LEFT}" y="{y:.1}" width="{upstream:.1}" height="{THICK}" fill="#b8bec6"/>
<text x="{after_upstream:.1}" y="{upstream_y:.1}" fill="#666666">{upstream_text}</text>
<rect x="{LEFT}" y="{second:.1}" width="{flyball:.1}" height="{THICK}" fill="#2f6fdf"/>
<text x="{after_flyball:.1}" y="{flyball_y:.1}" fill="#1a1a1a" font-weight="600">{flyball_text}{shown}</text>"##,
        label = LEFT - 10.0,
        label_y = y + THICK + 4.0,
        what = escape(&bar.what),
        after_upstream = LEFT + upstream + 6.0,
        upstream_y = y + THICK - 2.5,
        upstream_text = escape(&bar.upstream),
        second = y + THICK + 1.0,
        after_flyball = LEFT + flyball + 6.0,
        flyball_y = y + 2.0 * THICK - 1.5,
        flyball_text = escape(&bar.flyball),
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_ratio() {
        let bar = |ratio| Bar { what: "a < b".into(), upstream: "1 s".into(), flyball: "x".into(), ratio };
        let svg = draw("t", "n", &[bar(Some(0.5)), bar(Some(1.0)), bar(None)]);
        assert!(svg.contains(r##"width="480.0" height="13" fill="#b8bec6""##), "{svg}");
        assert!(svg.contains(r##"width="240.0" height="13" fill="#2f6fdf""##));
        assert!(svg.contains(r##"width="0.0" height="13" fill="#2f6fdf""##));
        assert!(svg.contains("a &lt; b") && svg.contains("(0.50×)"));
    }
}
