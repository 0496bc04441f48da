//! What is wrong with a file, and where in its text.

use std::ops::Range;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// A message with the lines of the file that it is about, the wrong bytes of its text marked.
pub fn place(file: &Path, text: &str, span: Range<usize>, message: &str) -> String {
    let file = file.display().to_string();
    let place = Snippet::source(text).path(&file).annotation(AnnotationKind::Primary.span(span));
    Renderer::plain().render(&[Level::ERROR.primary_title(message).element(place)])
}
