//! Files that a scenario gives to the controller manager, such as the programs of drivers.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use tempfile::TempDir;

use super::super::StepError;

/// How flags name the folder.
const FOLDER: &str = "$DIR";

/// The folder of a run, made when it is first needed and removed with this.
#[derive(Default)]
pub(in super::super) struct Files {
    folder: Option<TempDir>,
}

impl Files {
    fn folder(&mut self) -> Result<&Path, StepError> {
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => {
                tempfile::tempdir().map_err(|error| StepError::failed(format!("make a folder: {error}")))?
            }
        };
        Ok(self.folder.insert(folder).path())
    }

    /// Writes executable files, by their paths in the folder, and removes those without a text.
    pub(in super::super) fn write(
        &mut self,
        files: &BTreeMap<String, Option<String>>,
    ) -> Result<(), StepError> {
        for (name, text) in files {
            let path = self.folder()?.join(name);
            let error = |error: io::Error| StepError::failed(format!("file {name}: {error}"));
            let is_inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
            if !is_inside || name.is_empty() {
                return Err(StepError::failed(format!("file {name}: the path must be inside of {FOLDER}")));
            }
            match text {
                None => fs::remove_file(&path).map_err(error)?,
                Some(text) => place(&path, text).map_err(error)?,
            }
        }
        Ok(())
    }

    /// Flags with the path of the folder.
    pub(in super::super) fn fill(&mut self, flags: &[String]) -> Result<Vec<String>, StepError> {
        let mut filled = flags.to_vec();
        for flag in filled.iter_mut().filter(|flag| flag.contains(FOLDER)) {
            *flag = flag.replace(FOLDER, &self.folder()?.display().to_string());
        }
        Ok(filled)
    }
}

/// Renames the file into place, so that nobody runs half of it.
fn place(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let new = folder.join(".new");
    fs::write(&new, text)?;
    fs::set_permissions(&new, Permissions::from_mode(0o755))?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_replaced_and_removed() {
        let mut files = Files::default();
        let flags = files.fill(&["--a=$DIR/sub".to_owned(), "--b=1".to_owned()]).unwrap();
        let folder = flags[0].strip_prefix("--a=").unwrap().to_owned();
        let script = Path::new(&folder).join("program");
        let text = |text: Option<&str>| BTreeMap::from([("sub/program".to_owned(), text.map(str::to_owned))]);
        for content in ["one", "two"] {
            files.write(&text(Some(content))).unwrap();
            assert_eq!(fs::read_to_string(&script).unwrap(), content);
        }
        assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o755);
        files.write(&text(None)).unwrap();
        assert!(!script.exists() && flags[1] == "--b=1");
        let outside = BTreeMap::from([("../x".to_owned(), Some(String::new()))]);
        assert!(files.write(&outside).is_err());
    }
}
