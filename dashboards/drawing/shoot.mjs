// node shoot.mjs DIST BOARD.json PROMETHEUS PICTURE.png: serves the page on the loopback and takes its picture.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { chromium } from 'playwright-core';

const [dist, board, prometheus, picture] = process.argv.slice(2);
const KINDS = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.woff2': 'font/woff2' };
const HEAD = 56, ROW = 36;
const server = http.createServer((question, answer) => {
  if (question.url.startsWith('/api/')) {
    http.get(prometheus + question.url, (found) => { answer.writeHead(found.statusCode, { 'content-type': 'application/json' }); found.pipe(answer); });
    return;
  }
  const name = question.url.split('?')[0];
  const file = name === '/board.json' ? board : path.join(dist, name === '/' ? 'index.html' : name);
  if (!fs.existsSync(file)) { answer.writeHead(404); answer.end(); return; }
  answer.writeHead(200, { 'content-type': KINDS[path.extname(file)] ?? 'application/octet-stream' });
  fs.createReadStream(file).pipe(answer);
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const { panels } = JSON.parse(fs.readFileSync(board, 'utf8'));
const height = HEAD + ROW * Math.max(...panels.map(({ gridPos: { y, h } }) => y + h));
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'] });
const page = await browser.newPage({ viewport: { width: 1600, height } });
const errors = [];
page.on('pageerror', (why) => errors.push(String(why.stack).slice(0, 400)));
await page.goto(`http://127.0.0.1:${server.address().port}/`);
await page.waitForFunction((count) => document.querySelectorAll('[data-state]:not([data-state=waits])').length === count, panels.length, { timeout: 120_000 });
await page.waitForTimeout(1500); // lines are drawn on a canvas after the data came
errors.push(...await page.evaluate(() => [...document.querySelectorAll('[data-state=error]')].map((one) => one.innerText)));
await page.screenshot({ path: picture });
await browser.close();
server.close();
errors.forEach((why) => console.error(why));
process.exit(errors.length ? 1 : 0);
