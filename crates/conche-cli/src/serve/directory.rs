//! The files of a directory as resources.
//!
//! GET of a file returns its content, an ETag of the content, and a Content-Format by extension;
//! GET of a directory returns links to its entries. If a file changes during a block-wise transfer,
//! so does the ETag, which clients notice. A file larger than [`LARGEST`] is streamed: its ETag
//! covers length and modification time, and the transfer fails if the file changes.
//! `/.well-known/core` lists all files. Names that begin with a dot are neither listed nor served.
//!
//! The directory is a capability ([`cap_std`]): paths and symbolic links cannot lead out of it.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File};
use conche::codec::encode_path;
use conche::codec::link_format::{Filter, LinkWriteError, LinkWriter, Links};
use conche::server::extract::FromRequestParts;
use conche::server::{Conditions, Rejection, Request, Response, Router, State, get};
use conche::{Code, ContentFormat, OptionNumber};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tracing::{debug, warn};

use super::upload::write;
use super::{LARGEST, etag};
use crate::error::UsageError;
use crate::formats;
use crate::reader_stream::ReaderStream;

/// Maximum number of files in `/.well-known/core`.
const LISTED: usize = 1000;

/// Maximum concurrent requests that use the disk, each with up to [`LARGEST`] bytes of memory;
/// others wait.
const TURNS: usize = 4;

/// Serves the directory; accepts changes only if it is `writable`.
pub fn router(path: &Path, writable: bool) -> anyhow::Result<Router> {
    let directory = open(path)?;
    let mut file = get(read);
    if writable {
        file = file.put(write).delete(remove);
    }
    Ok(Router::new()
        .route("/", get(read).hidden())
        .route("/{*path}", file)
        .route("/.well-known/core", get(list_all).hidden())
        .with_state(directory))
}

pub fn open(path: &Path) -> anyhow::Result<Directory> {
    let root = Dir::open_ambient_dir(path, ambient_authority());
    let root =
        root.map_err(|error| UsageError(format!("the directory {} cannot be served: {error}", path.display())))?;
    Ok(Directory(Arc::new(Shared::of(root))))
}

#[derive(Clone)]
pub struct Directory(Arc<Shared>);

pub struct Shared {
    pub root: Dir,
    /// Held while a file's ETag is compared and the file replaced.
    pub changing: Mutex<()>,
    pub parts: AtomicU64,
    turns: Arc<Semaphore>,
    /// Once: clients could fill the log.
    truncated: Once,
}

enum Lookup {
    File {
        content: Vec<u8>,
        format: ContentFormat,
    },
    /// Streamed.
    Large {
        file: Unchanged,
        format: ContentFormat,
    },
    Directory(Vec<Entry>),
}

/// The router compares conditions with the ETag.
async fn read(State(directory): State<Directory>, request: Request) -> Result<Response, Rejection> {
    let place = FilePath::of(&request)?;
    let found = directory.run(move |shared| shared.read(&place)).await?;
    let (content, format) = match found {
        Lookup::File { content, format } => (content, format),
        Lookup::Large { file, format } => {
            let (etag, size) = (file.etag(), u32::try_from(file.stamp.length).ok());
            let pieces = ReaderStream::of(file).map_err(refused)?;
            return Ok(Response::new(Code::CONTENT).stream(format, size, pieces).etag(&etag));
        }
        Lookup::Directory(entries) => (links(&entries, request.queries())?.into_bytes(), ContentFormat::LINK_FORMAT),
    };
    let etag = etag(&content);
    Ok(Response::new(Code::CONTENT).payload(format, content).etag(&etag))
}

async fn remove(
    State(directory): State<Directory>,
    conditions: Conditions,
    request: Request,
) -> Result<Code, Rejection> {
    let place = FilePath::of(&request)?.file()?;
    directory.run(move |shared| shared.remove(&place, &conditions)).await
}

async fn list_all(State(directory): State<Directory>, request: Request) -> Result<Response, Rejection> {
    let entries = directory.run(|shared| shared.all()).await?;
    let links = links(&entries, request.queries())?;
    Ok(Response::new(Code::CONTENT).payload(ContentFormat::LINK_FORMAT, links))
}

impl Directory {
    /// Runs blocking work on a thread, once a permit is free.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Shared>) -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, Rejection> {
        let failed = || Rejection::new(Code::INTERNAL_SERVER_ERROR, "the server failed while reading");
        // The work keeps its permit even if the request is dropped.
        let turn = Arc::clone(&self.0.turns).acquire_owned().await.map_err(|_| failed())?;
        let shared = Arc::clone(&self.0);
        let done = spawn_blocking(move || {
            let _turn = turn;
            work(&shared)
        });
        done.await.unwrap_or_else(|_| Err(failed()))
    }
}

impl Shared {
    fn of(root: Dir) -> Self {
        let turns = Arc::new(Semaphore::new(TURNS));
        Self { root, changing: Mutex::default(), parts: AtomicU64::new(0), turns, truncated: Once::new() }
    }

    fn read(&self, place: &FilePath) -> Result<Lookup, Rejection> {
        let metadata = self.root.metadata(place.relative()).map_err(refused)?;
        if metadata.is_dir() {
            return self.entries(place).map(Lookup::Directory).map_err(refused);
        }
        // Devices and pipes are not served, and a file has no entries.
        if !metadata.is_file() || place.is_directory {
            return Err(not_found());
        }
        if metadata.len() > LARGEST as u64 {
            let file = Unchanged::of(self.root.open(place.relative()).map_err(refused)?).map_err(refused)?;
            return Ok(Lookup::Large { file, format: format(&place.path).unwrap_or(ContentFormat::OCTET_STREAM) });
        }
        let content = self.content(place)?;
        let format = format(&place.path).unwrap_or_else(|| match std::str::from_utf8(&content) {
            Ok(_) => ContentFormat::TEXT_PLAIN,
            Err(_) => ContentFormat::OCTET_STREAM,
        });
        Ok(Lookup::File { content, format })
    }

    fn content(&self, place: &FilePath) -> Result<Vec<u8>, Rejection> {
        let mut file = self.root.open(place.relative()).map_err(refused)?;
        let length = file.metadata().map_err(refused)?.len();
        let too_large = |length| {
            let message = format!("the file has {length} bytes: more than {LARGEST} are not served");
            Rejection::new(Code::NOT_IMPLEMENTED, message)
        };
        if length > LARGEST as u64 {
            return Err(too_large(length));
        }
        let mut content = Vec::new();
        // The file may have grown.
        let length = (&mut file).take(LARGEST as u64 + 1).read_to_end(&mut content).map_err(refused)?;
        if length > LARGEST { Err(too_large(length as u64)) } else { Ok(content) }
    }

    fn remove(&self, place: &FilePath, conditions: &Conditions) -> Result<Code, Rejection> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.etag(place)?;
        conditions.check(current.as_ref().map(<[u8; 8]>::as_slice))?;
        if current.is_some() {
            self.root.remove_file(&place.path).map_err(refused)?;
        }
        Ok(Code::DELETED)
    }

    pub fn etag(&self, place: &FilePath) -> Result<Option<[u8; 8]>, Rejection> {
        match self.root.metadata(place.relative()) {
            Ok(metadata) if metadata.is_file() => Ok(Some(etag(&self.content(place)?))),
            Ok(_) => Err(Rejection::new(Code::METHOD_NOT_ALLOWED, "it is a directory: only files can be changed")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(error)),
        }
    }

    fn entries(&self, place: &FilePath) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in self.root.read_dir(place.relative())? {
            // A request cannot name a file whose name is not UTF-8.
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if name.starts_with('.') {
                continue;
            }
            let path = if place.path.is_empty() { name } else { format!("{}/{name}", place.path) };
            // An entry without accessible metadata, such as a link that leads out, is not served.
            let Ok(metadata) = self.root.metadata(&path) else { continue };
            let is_link = self.root.symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink());
            if metadata.is_dir() {
                entries.push(Entry {
                    path,
                    format: Some(ContentFormat::LINK_FORMAT),
                    directory: true,
                    size: None,
                    is_link,
                });
            } else if metadata.is_file() {
                let size = u32::try_from(metadata.len()).ok();
                entries.push(Entry { format: format(&path), path, directory: false, size, is_link });
            }
        }
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    /// Skips links to directories: they may form a cycle.
    fn all(&self) -> Result<Vec<Entry>, Rejection> {
        let mut files = Vec::new();
        let mut directories = vec![FilePath { path: String::new(), is_directory: true }];
        while let Some(directory) = directories.pop() {
            let entries = match self.entries(&directory) {
                Ok(entries) => entries,
                Err(error) if directory.path.is_empty() => return Err(refused(error)),
                Err(_) => continue,
            };
            for entry in entries.into_iter().rev() {
                if !entry.directory {
                    files.push(entry);
                } else if !entry.is_link {
                    directories.push(FilePath { path: entry.path, is_directory: true });
                }
            }
            if files.len() > LISTED {
                files.truncate(LISTED);
                self.truncated.call_once(|| warn!(LISTED, "more files than /.well-known/core lists"));
                break;
            }
        }
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }
}

struct Unchanged {
    file: File,
    stamp: Stamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: SystemTime,
}

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { length: metadata.len(), modified: metadata.modified()?.into_std() })
    }
}

impl Unchanged {
    fn of(file: File) -> io::Result<Self> {
        let stamp = Stamp::of(&file)?;
        Ok(Self { file, stamp })
    }

    /// From length and time, to read the content only once.
    fn etag(&self) -> [u8; 8] {
        let modified = self.stamp.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        etag(&[&self.stamp.length.to_be_bytes()[..], &modified.as_nanos().to_be_bytes()].concat())
    }
}

impl Read for Unchanged {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(buffer)?;
        if Stamp::of(&self.file)? == self.stamp { Ok(bytes) } else { Err(io::Error::other("the file has changed")) }
    }
}

fn format(path: &str) -> Option<ContentFormat> {
    Path::new(path).extension().and_then(|extension| extension.to_str()).and_then(formats::of_extension)
}

/// Maps an I/O error to a response that reveals little.
pub fn refused(error: io::Error) -> Rejection {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => not_found(),
        io::ErrorKind::PermissionDenied => Rejection::new(Code::FORBIDDEN, "the server may not open this file"),
        _ => {
            // Clients can cause this at will.
            debug!(%error, "a file cannot be served");
            Rejection::new(Code::INTERNAL_SERVER_ERROR, "the server cannot open this file")
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath {
    /// Without a final slash; empty for the directory itself.
    pub path: String,
    pub is_directory: bool,
}

impl FilePath {
    /// Parses the request's path; 4.04 if it is not permitted.
    pub fn of(request: &Request) -> Result<Self, Rejection> {
        let mut segments: Vec<&str> = Vec::new();
        for segment in request.message().values(OptionNumber::URI_PATH) {
            segments.push(std::str::from_utf8(segment).map_err(|_| not_found())?);
        }
        let is_directory = segments.pop_if(|last| last.is_empty()).is_some() || segments.is_empty();
        let is_name = |name: &&str| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
        if !segments.iter().all(is_name) {
            return Err(not_found());
        }
        Ok(Self { path: segments.join("/"), is_directory })
    }

    /// Refuses a directory.
    pub fn file(self) -> Result<Self, Rejection> {
        if self.is_directory {
            return Err(Rejection::new(Code::METHOD_NOT_ALLOWED, "it names a directory: only files can be changed"));
        }
        Ok(self)
    }

    fn relative(&self) -> &str {
        if self.path.is_empty() { "." } else { &self.path }
    }
}

impl<S> FromRequestParts<S> for FilePath {
    type Rejection = Rejection;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
        Self::of(request)
    }
}

/// The response for files that are missing or hidden.
fn not_found() -> Rejection {
    Rejection::new(Code::NOT_FOUND, "there is no such file")
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// Path below the served directory, without a slash at either end.
    path: String,
    format: Option<ContentFormat>,
    directory: bool,
    /// Bytes.
    size: Option<u32>,
    is_link: bool,
}

/// Returns links to the entries that match all arguments of the query.
fn links<'a>(entries: &[Entry], query: impl Iterator<Item = Cow<'a, str>>) -> Result<String, Rejection> {
    let query: Vec<_> = query.collect();
    let filters: Vec<_> = query.iter().map(|argument| Filter::new(argument)).collect();
    let failed = |error: LinkWriteError| Rejection::new(Code::INTERNAL_SERVER_ERROR, error.to_string());
    let all = link_all(entries).map_err(failed)?;
    if filters.is_empty() {
        return Ok(all);
    }
    let mut text = String::new();
    let mut selected = LinkWriter::new(&mut text);
    for link in Links::read(&all).flatten().filter(|link| filters.iter().all(|filter| filter.selects(link))) {
        selected.copy(&link).map_err(failed)?;
    }
    Ok(text)
}

fn link_all(entries: &[Entry]) -> Result<String, LinkWriteError> {
    let mut text = String::new();
    let mut links = LinkWriter::new(&mut text);
    for entry in entries {
        // A directory's path ends in a slash: its last segment is empty.
        let segments = entry.path.split('/').chain(entry.directory.then_some(""));
        links.link(&encode_path(segments.map(str::as_bytes)))?;
        if let Some(format) = entry.format {
            links.attribute("ct", &format.0.to_string())?;
        }
        if let Some(size) = entry.size {
            links.attribute("sz", &size.to_string())?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::atomic::Ordering;

    #[tokio::test]
    async fn no_more_than_a_few_requests_hold_files_at_a_time() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let root = Dir::open_ambient_dir(root.path(), ambient_authority()).expect("it can be opened");
        let directory = Directory(Arc::new(Shared::of(root)));
        let holding = Arc::new(AtomicU64::new(0));
        let requests = (0..8 * TURNS).map(|_| {
            let holding = Arc::clone(&holding);
            let directory = directory.clone();
            let work = move |_: &Arc<Shared>| {
                let others = holding.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(2));
                holding.fetch_sub(1, Ordering::SeqCst);
                Ok(others)
            };
            tokio::spawn(async move { directory.run(work).await })
        });
        let requests: Vec<_> = requests.collect();
        for request in requests {
            let others = request.await.expect("it ends").expect("it is done");
            assert!(others < TURNS as u64, "{others} others hold files");
        }
    }

    #[test]
    fn a_file_beyond_the_limit_is_read_while_it_is_sent_and_no_more_of_it_once_it_changes() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("image.bin");
        let length = LARGEST as u64 + 1;
        std::fs::File::create(&path).and_then(|file| file.set_len(length)).expect("a file with holes");
        let root = Dir::open_ambient_dir(directory.path(), ambient_authority()).expect("it can be opened");
        let place = FilePath { path: "image.bin".into(), is_directory: false };
        let Ok(Lookup::Large { mut file, format }) = Shared::of(root).read(&place) else { panic!("it is large") };
        assert_eq!((format, file.stamp.length), (ContentFormat::OCTET_STREAM, length));
        let mut buffer = [1; 1000];
        assert_eq!(file.read(&mut buffer).expect("it is as it was"), 1000);
        std::fs::File::options().append(true).open(&path).and_then(|mut file| file.write_all(b"more")).expect("room");
        assert!(file.read(&mut buffer).is_err());
    }

    #[test]
    fn entries_are_links_with_format_and_size_and_are_found_by_them() {
        let file = |path: &str, format, size| Entry {
            path: path.to_owned(),
            format,
            directory: false,
            size: Some(size),
            is_link: false,
        };
        let entries = [
            file("a b{c}.json", Some(ContentFormat::JSON), 2),
            file("sub/x", None, 0),
            Entry { format: Some(ContentFormat::LINK_FORMAT), directory: true, size: None, ..file("sub", None, 0) },
        ];
        let found = |query: &[&str]| links(&entries, query.iter().map(|argument| Cow::from(*argument))).expect("links");
        assert_eq!(found(&[]), "</a%20b%7Bc%7D.json>;ct=50;sz=2,</sub/x>;sz=0,</sub/>;ct=40");
        assert_eq!(found(&["href=/sub*"]), "</sub/x>;sz=0,</sub/>;ct=40");
        assert_eq!(found(&["href=/sub*", "sz=*"]), "</sub/x>;sz=0");
        assert_eq!(found(&["ct=60"]), "");
    }
}
