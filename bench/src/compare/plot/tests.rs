use super::super::results::tests::results;
use super::*;

const ALL: &[&str] = &[OURS, "client-go", "client-go-list", "kube-rs"];

/// Returns the names of all elements, and checks that each is closed.
fn elements(svg: &str) -> Vec<&str> {
    let (mut open, mut all) = (Vec::new(), Vec::new());
    for piece in svg.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap();
        assert!(!text.contains('>'), "{piece}");
        let name = tag.split_whitespace().next().unwrap().trim_end_matches('/');
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else {
            all.push(name);
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
    }
    assert_eq!(open, Vec::<&str>::new());
    all
}

fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    tag.split_once(&format!(" {name}=\"")).unwrap().1.split('"').next().unwrap()
}

#[test]
fn the_plot_is_well_formed_and_complete() {
    let (cases, results) = results();
    let svg = plot(&results, &cases, ALL);
    let elements = elements(&svg);
    // Three panels in protobuf and two in JSON, with three programs each; there is no figure of a relist.
    assert_eq!(elements.iter().filter(|name| **name == "rect").count(), 15);
    assert_eq!(elements.iter().filter(|name| **name == "circle").count(), 6);
    for text in ["50 pods", "Updates per second, protobuf", "kube-rs, JSON", "prefers-color-scheme:dark", "10.5×"] {
        assert!(svg.contains(text), "{text} is missing");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn bars_are_proportional_to_their_figures() {
    let (cases, results) = results();
    let svg = plot(&results, &cases, &[OURS, "kube-rs"]);
    let widths: Vec<f64> = svg.split("<rect").skip(1).map(|tag| attribute(tag, "width").parse().unwrap()).collect();
    // Steady memory in protobuf: ours a fortieth.
    assert_eq!(widths[2..4], [2.1, 84.0]);
}

#[test]
fn without_figures_nothing_is_drawn() {
    let svg = plot(&Results::default(), &[], ALL);
    assert_eq!(elements(&svg), ["svg", "title", "style"]);
}

#[test]
fn text_is_escaped() {
    assert_eq!(escaped("a<b & c>"), "a&lt;b &amp; c&gt;");
}
