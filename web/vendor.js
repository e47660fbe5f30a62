// Writes mashbox/ui/vendor.js, the libraries in one file, and their licenses beside it. With
// --check it writes nothing, and fails when the files are not what it would write.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const UI = new URL("../mashbox/ui/", import.meta.url);

const { metafile, outputFiles } = await build({
  entryPoints: ["vendor.entry.js"],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  metafile: true,
  write: false,
});
const files = { "vendor.js": outputFiles[0].text, "LICENSES.txt": licenses() };
const isCheck = process.argv.includes("--check");
const stale = Object.keys(files).filter((name) => (isCheck ? !isFresh(name) : write(name)));
if (stale.length) {
  console.error(`Not what web/ makes: ${stale.join(", ")}. Run: npm --prefix web run vendor`);
  process.exit(1);
}

function isFresh(name) {
  return readFileSync(new URL(name, UI), "utf8") === files[name];
}

function write(name) {
  writeFileSync(new URL(name, UI), files[name]);
}

function licenses() {
  const paths = Object.keys(metafile.inputs).map(
    (path) => path.match(/node_modules\/([^/]+)/)?.[1],
  );
  const names = [...new Set(paths.filter(Boolean))].sort();
  return names.map(license).join(`\n\n${"-".repeat(72)}\n\n`);
}

function license(name) {
  const folder = `node_modules/${name}/`;
  const { version, license: id } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e(\.\w+)?$/i.test(entry));
  return `${name} ${version} (${id})\n\n${readFileSync(folder + file, "utf8").trim()}\n`;
}
