//! The page in a browser: it runs without errors, draws everything, and its controls work.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use conche_report::{Results, page};

/// Queries the loaded page; the results appear in its last element.
const PROBE: &str = r#"<script>
addEventListener('load', () => setTimeout(() => {
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const told = [];
  told.push(`loaded=${Math.round(performance.timing.loadEventStart - performance.timing.navigationStart)}`);
  const drawn = all('svg.drawn');
  told.push(`drawn=${drawn.length}`);
  told.push(`empty=${drawn.filter((it) => !all('.m', it).some((mark) => mark.getBBox().height > 0)).length}`);
  told.push(`unsized=${drawn.filter((it) => it.getBoundingClientRect().width < 100).length}`);
  told.push(`overlaps=${drawn.filter((it) => {
    const boxes = all('text', it).map((text) => text.getBoundingClientRect());
    return boxes.some((a, i) => boxes.some((b, j) => i < j && a.left < b.right - 1 && b.left < a.right - 1
      && a.top < b.bottom - 3 && b.top < a.bottom - 3 && !all('text[transform]', it).length));
  }).length}`);
  told.push(`wider=${document.documentElement.scrollWidth > innerWidth}`);
  const before = getComputedStyle(document.body).backgroundColor;
  document.getElementById('theme').click();
  told.push(`themed=${getComputedStyle(document.body).backgroundColor !== before}`);
  const chosen = all('.exchanges').every((block) => {
    const [cell, which] = all('select', block);
    return [...cell.options].every((_, at) => [...which.options].every((_, kind) => {
      cell.value = at;
      which.value = kind;
      which.onchange();
      const seen = all('figure', block).filter((it) => it.getBoundingClientRect().height > 50);
      return seen.length === 1 && seen[0].dataset.at === `${at}/${kind}` && all('.m', seen[0]).length === 3;
    }));
  });
  told.push(`exchanges=${all('.exchanges').length}`, `chosen=${chosen}`);
  const fields = all('.heat td[tabindex]');
  const key = (name) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
  const panel = document.getElementById('field');
  fields[0].focus();
  ['ArrowRight', 'ArrowDown', 'ArrowDown', 'Enter'].forEach(key);
  told.push(`fields=${fields.length}`, `stops=${fields.filter((it) => it.tabIndex === 0).length}`);
  told.push(`reached=${fields.indexOf(document.activeElement)}`);
  told.push(`lanes=${all('text', panel).filter((it) => it.getAttribute('text-anchor') === 'end').length - 1}`);
  told.push(`dots=${all('circle', panel).filter((it) => it.getBBox().width > 0).length}`);
  told.push(`chosen_lane=${all('.chosen', panel)[0].textContent}`);
  const shown = panel.getBoundingClientRect().height > 50;
  key('Escape');
  told.push(`panel=${shown && panel.hidden}`);
  fields[1].click();
  told.push(`clicked=${!panel.hidden && panel.textContent.includes('random · 400')}`);
  panel.querySelector('button').click();
  fields[1].dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
  told.push(`pointed=${document.getElementById('tip').textContent.startsWith('default, ')}`);
  const seen = (it) => getComputedStyle(it).color !== getComputedStyle(it).backgroundColor;
  told.push(`legible=${fields.every(seen)}`);
  const form = document.getElementById('choose');
  let rows = 0;
  for (const study of all('option', form.study)) {
    form.study.value = study.value;
    form.study.onchange();
    rows += all('.ratio').length;
  }
  told.push(`ratios=${rows}`);
  form.other.value = form.one.value;
  form.other.onchange();
  told.push(`alike=${all('.ratio span:last-child').every((it) => it.textContent.startsWith('×1.00'))}`);
  all('.m')[0].dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
  const tip = document.getElementById('tip');
  told.push(`tip=${!tip.hidden && tip.textContent.length > 5}`);
  told.push(`errors=${window.problems.length}`, ...window.problems);
  const answer = document.createElement('pre');
  answer.id = 'answer';
  answer.textContent = told.join('\n');
  document.body.append(answer);
}, 0));
</script>"#;

/// Precedes everything else in the page.
const WATCH: &str = "<script>window.problems = []; addEventListener('error', (it) => window.problems.push(it.message));\
                     console.error = console.warn = (it) => window.problems.push(it);</script>";

/// Opens a page at this width, and returns the results of the probe.
fn opened(page: &str, directory: &Path, width: u32) -> Vec<String> {
    let probed = page.replacen("<meta charset=utf-8>", &format!("<meta charset=utf-8>{WATCH}"), 1);
    let file = directory.join("probed.html");
    fs::write(&file, probed.replacen("</body>", &format!("{PROBE}</body>"), 1)).expect("written");
    let run = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--enable-logging=stderr", "--v=0"])
        .arg("--virtual-time-budget=20000")
        .arg(format!("--window-size={width},900"))
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium starts; install Debian's package chromium");
    let (page, log) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    let console: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert_eq!(console, Vec::<&str>::new(), "the console is silent");
    let answer = page.split("<pre id=\"answer\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    answer.unwrap_or_else(|| panic!("no answer: {log}")).lines().map(str::to_owned).collect()
}

fn number(answers: &[String], name: &str) -> usize {
    let answer = answers.iter().find_map(|line| line.strip_prefix(&format!("{name}=")));
    answer.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in {answers:?}"))
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_draws_every_figure_without_an_error_on_a_screen_and_on_a_phone() {
    let directory = tempfile::tempdir().expect("a directory");
    let papers = ["etfa14", "commag16", "bdp19", "wiopt12", "anrw18"];
    common::write(directory.path(), &papers);
    common::compare(directory.path(), &papers);
    let page = page(&[Results::read(directory.path()).expect("results")]);
    for width in [1300, 500] {
        let answers = opened(&page, directory.path(), width);
        println!("{width} wide, {} bytes, {} ms until loaded", page.len(), number(&answers, "loaded"));
        assert!(number(&answers, "drawn") >= common::figures_of(&papers).len(), "{answers:?}");
        for none in ["empty", "unsized", "overlaps", "errors"] {
            assert_eq!(number(&answers, none), 0, "{width}: {answers:?}");
        }
        assert!(number(&answers, "ratios") > 10, "{answers:?}");
        assert_eq!(number(&answers, "exchanges"), papers.len(), "{answers:?}");
        assert_eq!(number(&answers, "fields"), 2 * 3 * papers.len(), "{answers:?}");
        for (name, expected) in [("stops", 1), ("reached", 7), ("lanes", 3), ("dots", 9)] {
            assert_eq!(number(&answers, name), expected, "{width}: {name}: {answers:?}");
        }
        for expected in ["panel=true", "clicked=true", "pointed=true", "legible=true", "chosen_lane=default"] {
            assert!(answers.iter().any(|answer| answer == expected), "{width}: {expected}: {answers:?}");
        }
        for expected in ["wider=false", "themed=true", "alike=true", "tip=true", "chosen=true"] {
            assert!(answers.iter().any(|answer| answer == expected), "{width}: {expected}: {answers:?}");
        }
    }
}
