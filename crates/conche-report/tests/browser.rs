//! The page in a browser, without errors.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use conche_lab::Controllers;
use conche_report::{Results, page};

const SCENARIO: &str = r#"
schema = 1
name = "small"
title = "Time series"
replications = 1
seed = 1
duration = "10s"
endpoint = { max_retransmit = 4, nstart = 1, timeout_cap = "60s", token_length = 0 }
nodes = [{ name = "client", count = 3 }, { name = "server" }]
links = [{ name = "wire", between = ["client", "server"], wire = { rate = "30kbit/s", delay = "10ms", header_bytes = 28 } }]
traffic = [{ name = "gets", from = "client", to = "server" }]
schemes = [{ name = "slow", controller = "default" }, { name = "fast", controller = "cocoa" }]
"#;

/// Queries the loaded page into its last element.
const PROBE: &str = r#"<script>
addEventListener('load', () => setTimeout(() => {
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const told = [];
  told.push(`loaded=${Math.round(performance.timing.loadEventStart - performance.timing.navigationStart)}`);
  const drawn = all('svg.drawn').filter((it) => it.getBoundingClientRect().width > 0);
  told.push(`drawn=${drawn.length}`);
  told.push(`maps=${all('.heatmap').length}`, `distributions=${all('.distributions').length}`);
  told.push(`series=${all('.series svg.drawn').length}`);
  const within = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
  const outside = (svg) => all('text, .wk, .answer, .lost', svg)
    .filter((it) => !within(it.getBoundingClientRect(), svg.getBoundingClientRect()));
  const plots = [...drawn, ...all('svg.lanes').filter((it) => it.getBoundingClientRect().width > 0)];
  const out = plots.flatMap(outside);
  told.push(`outside=${out.length}`, ...out.slice(0, 3).map((it) => it.outerHTML));
  const scale = ({ a, b }) => Math.hypot(a, b);
  const size = (text) => parseFloat(getComputedStyle(text).fontSize) * scale(text.getScreenCTM());
  const tiny = plots.flatMap((svg) => all('text', svg)).filter((text) => size(text) < 8);
  told.push(`tiny=${tiny.length}`, ...tiny.slice(0, 3).map((text) => `${size(text)} ${text.parentElement.outerHTML.slice(0, 200)}`));
  const hidden_arrows = all('svg.lanes').filter((it) => it.getBoundingClientRect().right > innerWidth);
  told.push(`arrows=${all('svg.lanes .answer, svg.lanes .lost').length > 0 && hidden_arrows.length === 0}`);
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).map((of) => of / 255)
      .map((of) => (of > 0.04045 ? ((of + 0.055) / 1.055) ** 2.4 : of / 12.92));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = () => all('.cells .m').filter((it) => {
    const [a, b] = all('rect, text', it).map((of) => luminance(getComputedStyle(of).fill)).sort((a, b) => a - b);
    return (b + 0.05) / (a + 0.05) < 4.5;
  }).length;
  const faint_before = faint();
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
  told.push(`faint=${faint_before + faint()}`);
  const files = [], links = [];
  const [blob, url, click] = [window.Blob, URL.createObjectURL, HTMLAnchorElement.prototype.click];
  window.Blob = function (parts, { type }) { files.push([type, parts.join('')]); };
  URL.createObjectURL = () => 'about:blank';
  HTMLAnchorElement.prototype.click = function () { links.push(this.download); };
  const figures = all('figure.chart').filter((it) => it.getBoundingClientRect().width > 0);
  figures.forEach((it) => all('.save button', it).forEach((button) => button.click()));
  [window.Blob, URL.createObjectURL, HTMLAnchorElement.prototype.click] = [blob, url, click];
  told.push(`saved=${files.length === 2 * figures.length && links.every((it) => /^[a-z0-9-]+\.(svg|csv)$/.test(it))}`);
  const is_drawing = (text) => {
    const root = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
    return root.tagName === 'svg' && root.querySelector('path, rect[x]') && !/var\(|NaN|undefined/.test(text);
  };
  const is_table = (text) => {
    const counts = text.trim().split('\n').map((line) => line.replace(/"([^"]|"")*"/g, '').split(',').length);
    return counts.length > 1 && counts.every((count) => count === counts[0]);
  };
  const wrong = files.filter(([type, text]) => !(type === 'text/csv' ? is_table(text) : is_drawing(text)));
  told.push(`invalid=${wrong.length}`, ...wrong.slice(0, 2).map(([, text]) => text.slice(0, 400)));
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
  parent.postMessage(told.join('\n'), '*');
}, 0));
</script>"#;

/// Frames the page at any width, with the probe's results.
const FRAME: &str = r#"<!doctype html><style>body { margin: 0 } iframe { border: 0; width: WIDTHpx; height: 900px }</style>
<script>addEventListener('message', (event) => {
  const answer = document.createElement('pre');
  answer.id = 'answer';
  answer.textContent = event.data;
  document.body.append(answer);
});</script><iframe src=probed.html></iframe>"#;

const WATCH: &str = "<script>window.problems = []; addEventListener('error', (it) => window.problems.push(it.message));\
                     console.error = console.warn = (it) => window.problems.push(it);</script>";

fn opened(page: &str, directory: &Path, width: u32) -> Vec<String> {
    let probed = page.replacen("<meta charset=utf-8>", &format!("<meta charset=utf-8>{WATCH}"), 1);
    let file = directory.join("probed.html");
    fs::write(&file, probed.replacen("</body>", &format!("{PROBE}</body>"), 1)).expect("written");
    let frame = directory.join("frame.html");
    fs::write(&frame, FRAME.replace("WIDTH", &width.to_string())).expect("written");
    let run = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--enable-logging=stderr", "--v=0"])
        .arg("--virtual-time-budget=20000")
        .arg("--window-size=1400,900")
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .arg(format!("file://{}", frame.display()))
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
    let with_series = directory.path().join("series");
    common::series(&with_series, SCENARIO, 3);
    let results = [directory.path(), &with_series]
        .map(|directory| Results::read(directory, &Controllers::new()).expect("results"));
    let page = page(&results);
    for width in [1280, 400] {
        let answers = opened(&page, directory.path(), width);
        println!("{width} wide, {} bytes, {} ms until loaded", page.len(), number(&answers, "loaded"));
        assert!(number(&answers, "drawn") >= common::figures_of(&papers).len(), "{answers:?}");
        for none in ["empty", "unsized", "overlaps", "outside", "tiny", "faint", "invalid", "errors"] {
            assert_eq!(number(&answers, none), 0, "{width}: {answers:?}");
        }
        assert!(number(&answers, "maps") > 0 && number(&answers, "distributions") > 0, "{answers:?}");
        assert_eq!(number(&answers, "series"), 2, "RTO and a queue: {answers:?}");
        assert!(number(&answers, "ratios") > 10, "{answers:?}");
        assert_eq!(number(&answers, "exchanges"), papers.len(), "{answers:?}");
        assert_eq!(number(&answers, "fields"), 2 * 3 * papers.len(), "{answers:?}");
        for (name, expected) in [("stops", 1), ("reached", 7), ("lanes", 3), ("dots", 9)] {
            assert_eq!(number(&answers, name), expected, "{width}: {name}: {answers:?}");
        }
        for expected in ["panel=true", "clicked=true", "pointed=true", "legible=true", "chosen_lane=default"] {
            assert!(answers.iter().any(|answer| answer == expected), "{width}: {expected}: {answers:?}");
        }
        for expected in
            ["wider=false", "arrows=true", "saved=true", "themed=true", "alike=true", "tip=true", "chosen=true"]
        {
            assert!(answers.iter().any(|answer| answer == expected), "{width}: {expected}: {answers:?}");
        }
    }
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_names_the_controllers_of_the_front_without_overlaps() {
    let directory = tempfile::tempdir().expect("a directory");
    common::write(directory.path(), &["wiopt12"]);
    common::networks(directory.path());
    let page = page(&[Results::read(directory.path(), &Controllers::new()).expect("results")]);
    for width in [1280, 400] {
        let answers = opened(&page, directory.path(), width);
        for none in ["empty", "unsized", "overlaps", "outside", "tiny", "invalid", "errors"] {
            assert_eq!(number(&answers, none), 0, "{width}: {none}: {answers:?}");
        }
        for expected in ["wider=false", "saved=true", "themed=true", "tip=true"] {
            assert!(answers.iter().any(|answer| answer == expected), "{width}: {expected}: {answers:?}");
        }
    }
}
