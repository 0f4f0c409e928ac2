//! The look of the HTML pages: the live page of a program and the page of a simulated run.

/// The style sheet: colours of the light and the dark scheme, type, header, buttons, and states as words with shapes.
pub const LOOK: &str = include_str!("page/look.css");

/// A JavaScript module that formats numbers and times and creates elements.
pub const FORMAT: &str = include_str!("page/format.js");

/// The icon, as SVG.
pub const ICON: &str = include_str!("page/icon.svg");
