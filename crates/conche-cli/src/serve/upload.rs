//! Files that clients write: stored beside the one to replace until they are complete.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use cap_std::fs::{File, OpenOptions};
use conche::Code;
use conche::server::extract::BodyError;
use conche::server::{BodyStream, Conditions, Rejection, State};

use super::LARGEST;
use super::directory::{Directory, FilePath, Shared, refused};

const PIECE: usize = 64 << 10;

/// Readers see the old content until the new one is complete.
pub async fn write(
    State(directory): State<Directory>,
    conditions: Conditions,
    place: FilePath,
    mut body: BodyStream,
) -> Result<Code, Rejection> {
    let place = place.file()?;
    if body.size().is_some_and(|size| size as usize > LARGEST) {
        return Err(too_large());
    }
    let mut part = directory.run(move |shared| PartialFile::begin(shared, place, conditions)).await?;
    let (mut piece, mut length) = (Vec::new(), 0);
    while let Some(chunk) = body.chunk().await.map_err(abandoned)? {
        length += chunk.len();
        if length > LARGEST {
            return Err(too_large());
        }
        piece.extend_from_slice(&chunk);
        if piece.len() >= PIECE {
            part = directory.run(move |_| part.append(&piece)).await?;
            piece = Vec::new();
        }
    }
    directory.run(move |_| part.append(&piece)?.finish()).await
}

/// Under a name that is not served; removed if dropped unfinished.
struct PartialFile {
    shared: Arc<Shared>,
    file: File,
    name: String,
    place: FilePath,
    conditions: Conditions,
    finished: bool,
}

impl PartialFile {
    fn begin(shared: &Arc<Shared>, place: FilePath, conditions: Conditions) -> Result<Self, Rejection> {
        // Checked again before the file is replaced.
        conditions.check(shared.etag(&place)?.as_ref().map(<[u8; 8]>::as_slice))?;
        let (folder, file) = place.path.rsplit_once('/').unwrap_or(("", &place.path));
        let separator = if folder.is_empty() { "" } else { "/" };
        let number = shared.parts.fetch_add(1, Ordering::Relaxed);
        let name = format!("{folder}{separator}.{file}.{}-{number}.part", std::process::id());
        let file = shared.root.open_with(&name, OpenOptions::new().write(true).create_new(true)).map_err(refused)?;
        Ok(Self { shared: Arc::clone(shared), file, name, place, conditions, finished: false })
    }

    fn append(mut self, piece: &[u8]) -> Result<Self, Rejection> {
        self.file.write_all(piece).map_err(refused)?;
        Ok(self)
    }

    fn finish(mut self) -> Result<Code, Rejection> {
        let shared = Arc::clone(&self.shared);
        let _changing = shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = shared.etag(&self.place)?;
        self.conditions.check(current.as_ref().map(<[u8; 8]>::as_slice))?;
        shared.root.rename(&self.name, &shared.root, &self.place.path).map_err(refused)?;
        self.finished = true;
        Ok(if current.is_some() { Code::CHANGED } else { Code::CREATED })
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.shared.root.remove_file(&self.name);
        }
    }
}

fn too_large() -> Rejection {
    Rejection::new(Code::REQUEST_ENTITY_TOO_LARGE, format!("files of up to {LARGEST} bytes can be written"))
}

fn abandoned(error: BodyError) -> Rejection {
    Rejection::new(Code::REQUEST_ENTITY_INCOMPLETE, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use conche::{Client, Server};

    use super::super::directory;
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("it is there");
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    #[tokio::test]
    async fn a_file_is_written_through_a_server_that_has_no_room_for_it() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let router = directory::router(root.path(), true).expect("it can be served");
        let server =
            Server::builder().router(router).body_limit(4 << 10).bind("127.0.0.1:0").await.expect("a free port");
        let content: Vec<u8> = (0..3_u32 << 20).map(|at| (at / 3).to_le_bytes()[0]).collect();
        let client = Client::builder().body_limit(LARGEST + 1).build().expect("a client");
        let url = format!("coap://{}/image.bin", server.local_addr());
        let answer = client.put(&url).bytes(content.clone()).send().await.expect("an answer");
        assert_eq!(answer.code(), Code::CREATED);
        assert!(fs::read(root.path().join("image.bin")).expect("it was written") == content);

        let too_large = client.put(&url).bytes(vec![0; LARGEST + 1]).send().await.expect("an answer");
        assert_eq!(too_large.code(), Code::REQUEST_ENTITY_TOO_LARGE);
        assert_eq!(names(root.path()), ["image.bin"]);
        assert!(fs::read(root.path().join("image.bin")).expect("it is there") == content);
    }

    #[tokio::test]
    async fn an_incomplete_upload_keeps_the_old_file_and_leaves_no_other() {
        let root = tempfile::tempdir().expect("a temporary directory");
        fs::write(root.path().join("file"), "old").expect("it can be written");
        let directory = directory::open(root.path()).expect("it can be served");
        let place = FilePath { path: "file".into(), is_directory: false };
        let begin =
            move |shared: &Arc<Shared>| PartialFile::begin(shared, place, Conditions::default())?.append(b"new");
        let part = directory.run(begin).await.expect("it begins");
        assert_eq!(names(root.path()).len(), 2);
        assert_eq!(fs::read(root.path().join("file")).expect("it is there"), b"old");
        drop(part);
        assert_eq!(names(root.path()), ["file"]);
    }
}
