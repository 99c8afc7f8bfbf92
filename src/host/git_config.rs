//! The user's git settings that are carried into the jail: an allow-list, and nothing that runs a program.

use std::path::PathBuf;

use super::{Host, ini, read_text};

/// How the value of a key must look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// Any text of one line.
    Line,
    /// One word of letters, digits, `-`, `_`, `.`.
    Word,
    /// Words with blanks, commas or `#` between them: colours and lists of words.
    Words,
}

/// One key that may be carried.
struct Row {
    /// `section.key`; a `*` stands for one subsection or for the whole rest.
    key: &'static str,
    value: Value,
    #[cfg_attr(not(test), expect(dead_code, reason = "it is for whoever reads the table, and for a test"))]
    reason: &'static str,
}

const fn row(key: &'static str, value: Value, reason: &'static str) -> Row {
    Row { key, value, reason }
}

/// Everything else stays outside: helpers, includes, aliases, hooks paths, pagers, editors, `core.fsmonitor`,
/// `core.sshCommand`, `gpg.program`, text converters, external diffs, URL rewrites, proxies, trailers and templates.
static ROWS: &[Row] = &[
    row("user.name", Value::Line, "commits name their author"),
    row("user.email", Value::Line, "commits name their author"),
    row("author.name", Value::Line, "as user.name, for the author alone"),
    row("author.email", Value::Line, "as user.email, for the author alone"),
    row("committer.name", Value::Line, "as user.name, for the committer alone"),
    row("committer.email", Value::Line, "as user.email, for the committer alone"),
    row("user.useconfigonly", Value::Word, "git asks rather than guesses the author"),
    row("init.defaultbranch", Value::Word, "the name of a new repository's branch"),
    row("core.quotepath", Value::Word, "how file names are shown"),
    row("core.autocrlf", Value::Word, "line ends of files that are checked out"),
    row("core.eol", Value::Word, "line ends of files that are checked out"),
    row("core.safecrlf", Value::Word, "a check of line ends"),
    row("core.abbrev", Value::Word, "the length of short names"),
    row("core.whitespace", Value::Words, "what diff marks"),
    row("core.filemode", Value::Word, "whether the executable bit counts"),
    row("core.ignorecase", Value::Word, "whether file names differ by case"),
    row("core.precomposeunicode", Value::Word, "the form of file names"),
    row("core.commentchar", Value::Line, "the comment mark of messages"),
    row("core.untrackedcache", Value::Word, "speed of status"),
    row("core.preloadindex", Value::Word, "speed of status"),
    row("color.*", Value::Words, "colours"),
    row("column.*", Value::Words, "columns"),
    row("diff.algorithm", Value::Word, "how diffs are computed"),
    row("diff.renames", Value::Word, "how diffs are computed"),
    row("diff.renamelimit", Value::Word, "how diffs are computed"),
    row("diff.colormoved", Value::Word, "how diffs are shown"),
    row("diff.colormovedws", Value::Words, "how diffs are shown"),
    row("diff.mnemonicprefix", Value::Word, "how diffs are shown"),
    row("diff.noprefix", Value::Word, "how diffs are shown"),
    row("diff.context", Value::Word, "how diffs are shown"),
    row("diff.interhunkcontext", Value::Word, "how diffs are shown"),
    row("diff.wserrorhighlight", Value::Words, "how diffs are shown"),
    row("diff.submodule", Value::Word, "how diffs are shown"),
    row("merge.conflictstyle", Value::Word, "how conflicts are marked"),
    row("merge.ff", Value::Word, "which merges make a commit"),
    row("merge.renames", Value::Word, "how merges are computed"),
    row("merge.stat", Value::Word, "what merge prints"),
    row("merge.log", Value::Word, "what merge messages say"),
    row("pull.rebase", Value::Word, "what pull does"),
    row("pull.ff", Value::Word, "what pull does"),
    row("fetch.prune", Value::Word, "what fetch does"),
    row("fetch.prunetags", Value::Word, "what fetch does"),
    row("fetch.parallel", Value::Word, "what fetch does"),
    row("push.default", Value::Word, "what push does"),
    row("push.followtags", Value::Word, "what push does"),
    row("rebase.autosquash", Value::Word, "what rebase does"),
    row("rebase.autostash", Value::Word, "what rebase does"),
    row("rebase.updaterefs", Value::Word, "what rebase does"),
    row("rebase.stat", Value::Word, "what rebase prints"),
    row("rebase.missingcommitscheck", Value::Word, "a check of rebase's"),
    row("rerere.enabled", Value::Word, "git remembers how conflicts were resolved"),
    row("rerere.autoupdate", Value::Word, "git remembers how conflicts were resolved"),
    row("branch.sort", Value::Word, "the order of branches"),
    row("tag.sort", Value::Words, "the order of tags"),
    row("versionsort.suffix", Value::Word, "the order of tags"),
    row("log.date", Value::Line, "how log shows dates"),
    row("log.decorate", Value::Word, "what log shows"),
    row("log.abbrevcommit", Value::Word, "what log shows"),
    row("log.follow", Value::Word, "what log shows"),
    row("status.short", Value::Word, "what status shows"),
    row("status.branch", Value::Word, "what status shows"),
    row("status.showuntrackedfiles", Value::Word, "what status shows"),
    row("commit.verbose", Value::Word, "what the editor shows"),
    row("commit.cleanup", Value::Word, "what becomes of comments in messages"),
    row("stash.showpatch", Value::Word, "what stash shows"),
    row("blame.*", Value::Words, "how blame is shown"),
    row("grep.linenumber", Value::Word, "what grep shows"),
    row("grep.patterntype", Value::Word, "what grep takes for a pattern"),
    row("help.autocorrect", Value::Word, "what git does with a misspelt command"),
    row("advice.*", Value::Word, "which hints git prints"),
    row("feature.manyfiles", Value::Word, "speed"),
    row("index.version", Value::Word, "speed"),
    row("pack.threads", Value::Word, "speed"),
    row("i18n.commitencoding", Value::Word, "the encoding of messages"),
    row("i18n.logoutputencoding", Value::Word, "the encoding of messages"),
    row("submodule.recurse", Value::Word, "whether commands go into submodules"),
];

/// git-lfs's filter, as its installer writes it. It runs a program, so only these very values are carried.
static LFS: &[(&str, &[&str])] = &[
    ("filter.lfs.clean", &["git-lfs clean -- %f"]),
    ("filter.lfs.smudge", &["git-lfs smudge -- %f", "git-lfs smudge --skip -- %f"]),
    ("filter.lfs.process", &["git-lfs filter-process", "git-lfs filter-process --skip"]),
    ("filter.lfs.required", &["true"]),
];

/// What is carried, and what the user should hear about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CarriedGitConfig {
    /// Keys and values in git's order; a later one wins.
    pub values: Vec<(String, String)>,
    /// git-lfs's filter is configured but is not carried.
    pub lfs: Lfs,
}

/// What becomes of git-lfs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lfs {
    /// It is not configured.
    #[default]
    None,
    /// Its filter is carried.
    Carried,
    /// It is configured, but not with its stock values or without the program: `git add` would commit files in place of
    /// their pointers, which the summary has to say.
    LeftOut,
}

impl CarriedGitConfig {
    /// Reads the system's, the XDG and the home's configuration, in that order. No include is followed.
    pub fn read(host: &Host) -> Self {
        let mut carried = Self::default();
        let mut lfs: Vec<(String, String)> = Vec::new();
        for entry in files(host).iter().filter_map(|file| read_text(file)).flat_map(|text| ini::git(&text)) {
            let name = entry.name();
            if name.starts_with("filter.lfs.") {
                lfs.push((name, entry.value));
            } else if ROWS.iter().any(|row| row.carries(&name, &entry.value)) {
                carried.values.push((name, entry.value));
            }
        }
        carried.lfs = lfs_state(host, &lfs);
        if carried.lfs == Lfs::Carried {
            carried.values.append(&mut lfs);
        }
        carried
    }
}

fn files(host: &Host) -> [PathBuf; 3] {
    let xdg = host.xdg("XDG_CONFIG_HOME", ".config").join("git/config");
    [host.at("/etc/gitconfig"), xdg, host.user.home.join(".gitconfig")]
}

fn lfs_state(host: &Host, entries: &[(String, String)]) -> Lfs {
    if entries.is_empty() {
        return Lfs::None;
    }
    let stock = entries
        .iter()
        .all(|(name, value)| LFS.iter().any(|(key, values)| key == name && values.contains(&value.as_str())));
    let installed = host.environment.path_entries().iter().any(|dir| dir.join("git-lfs").is_file());
    if stock && installed { Lfs::Carried } else { Lfs::LeftOut }
}

impl Row {
    fn carries(&self, name: &str, value: &str) -> bool {
        let key = match self.key.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == self.key,
        };
        key && value.len() <= 1024 && self.value.accepts(value)
    }
}

impl Value {
    fn accepts(self, value: &str) -> bool {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        match self {
            Self::Line => !value.chars().any(char::is_control),
            Self::Word => value.chars().all(word),
            Self::Words => value.chars().all(|c| word(c) || matches!(c, ' ' | ',' | '#' | ':' | '=' | '%')),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::host::tests::machine;

    fn carried(home: &str) -> CarriedGitConfig {
        let (_dir, host) = machine();
        fs::write(host.user.home.join(".gitconfig"), home).unwrap();
        CarriedGitConfig::read(&host)
    }

    fn pairs(values: &[(&str, &str)]) -> Vec<(String, String)> {
        values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_row_has_a_reason_and_a_key_in_lower_case() {
        for row in ROWS {
            assert!(!row.reason.is_empty(), "{}", row.key);
            assert_eq!(row.key, row.key.to_ascii_lowercase());
            assert!(row.key.contains('.'), "{}", row.key);
        }
    }

    #[test]
    fn the_system_the_xdg_and_the_home_file_are_read_in_this_order() {
        let (_dir, host) = machine();
        fs::write(host.at("/etc/gitconfig"), "[user]\nname = system\n").unwrap();
        fs::create_dir_all(host.user.home.join(".config/git")).unwrap();
        fs::write(host.user.home.join(".config/git/config"), "[user]\nname = xdg\n").unwrap();
        fs::write(host.user.home.join(".gitconfig"), "[user]\nname = home\n").unwrap();
        let want = [("user.name", "system"), ("user.name", "xdg"), ("user.name", "home")];
        assert_eq!(CarriedGitConfig::read(&host).values, pairs(&want));
    }

    #[test]
    fn harmless_keys_are_carried() {
        let text = "[user]\nname = A B\nemail = a@b.example\n[init]\ndefaultBranch = main\n[core]\nquotePath = off\n\
                    [color \"diff\"]\nold = red bold\n[pull]\nrebase = true\n[merge]\nconflictStyle = zdiff3\n";
        let want = [
            ("user.name", "A B"),
            ("user.email", "a@b.example"),
            ("init.defaultbranch", "main"),
            ("core.quotepath", "off"),
            ("color.diff.old", "red bold"),
            ("pull.rebase", "true"),
            ("merge.conflictstyle", "zdiff3"),
        ];
        assert_eq!(carried(text).values, pairs(&want));
    }

    #[test]
    fn what_runs_programs_or_leads_elsewhere_is_not() {
        for text in [
            "[include]\npath = ~/x",
            "[includeIf \"gitdir:/\"]\npath = x",
            "[credential]\nhelper = store",
            "[credential \"https://h.example\"]\nhelper = !x",
            "[alias]\nx = !sh -c evil",
            "[core]\nhooksPath = /x\nfsmonitor = /x\nsshCommand = x\npager = x\neditor = x\nattributesFile = x\nexcludesFile = x\nworktree = /\naskPass = x\ngitProxy = x",
            "[pager]\ndiff = x",
            "[gpg]\nprogram = x",
            "[gpg \"ssh\"]\nprogram = x",
            "[user]\nsigningKey = x",
            "[commit]\ngpgSign = true\ntemplate = /x",
            "[diff]\nexternal = x",
            "[diff \"d\"]\ntextconv = x\ncommand = x",
            "[diff]\ntool = x",
            "[difftool \"d\"]\ncmd = x",
            "[merge]\ntool = x",
            "[merge \"m\"]\ndriver = x",
            "[mergetool \"m\"]\ncmd = x",
            "[filter \"f\"]\nclean = x",
            "[interactive]\ndiffFilter = x",
            "[sequence]\neditor = x",
            "[url \"https://t@h/\"]\ninsteadOf = https://h/",
            "[http]\nproxy = x\nextraHeader = Authorization: x\ncookieFile = x\nsslKey = x",
            "[init]\ntemplateDir = /x",
            "[safe]\ndirectory = *",
            "[protocol \"ext\"]\nallow = always",
            "[remote \"o\"]\nuploadpack = x",
            "[submodule \"s\"]\nupdate = !x",
            "[uploadpack]\npackObjectsHook = x",
            "[trailer \"t\"]\ncommand = x",
            "[browser \"b\"]\ncmd = x",
            "[sendemail]\nsmtpPass = x",
            "[core]\nabbrev = \"!sh\"",
            "[init]\ndefaultBranch = \"a b\"",
        ] {
            assert_eq!(carried(text).values, vec![], "{text}");
        }
    }

    #[test]
    fn the_stock_filter_of_git_lfs_is_carried_when_the_program_is_there() {
        let stock = "[filter \"lfs\"]\nclean = git-lfs clean -- %f\nsmudge = git-lfs smudge -- %f\nprocess = git-lfs filter-process\nrequired = true\n";
        let (_dir, mut host) = machine();
        fs::write(host.user.home.join(".gitconfig"), stock).unwrap();
        assert_eq!(CarriedGitConfig::read(&host), CarriedGitConfig { values: vec![], lfs: Lfs::LeftOut });
        fs::write(host.user.home.join("git-lfs"), "").unwrap();
        host.environment.vars.insert("PATH".into(), host.user.home.clone().into());
        let carried = CarriedGitConfig::read(&host);
        assert_eq!((carried.lfs, carried.values.len()), (Lfs::Carried, 4));
        fs::write(host.user.home.join(".gitconfig"), stock.replace("clean -- %f", "clean -- %f && evil"))
            .unwrap();
        assert_eq!(CarriedGitConfig::read(&host).lfs, Lfs::LeftOut);
    }
}
