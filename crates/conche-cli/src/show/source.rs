//! Errors with their place in a file.

use std::ops::Range;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// Formats a message with the affected lines of the file and the erroneous bytes marked.
pub fn place(file: &Path, text: &str, span: Range<usize>, message: &str) -> String {
    let file = file.display().to_string();
    let place = Snippet::source(text).path(&file).annotation(AnnotationKind::Primary.span(span));
    Renderer::plain().render(&[Level::ERROR.primary_title(message).element(place)])
}
