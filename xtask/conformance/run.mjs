// Runs the http-cache-tests in one folder against one server; prints a line for each: kind, outcome, suite, id, detail.
// node run.mjs SUITE BASE [PROXY] [ID]: BASE is asked for the tests, through the forward PROXY if one is named ('-': none).
import http from 'node:http'
import { createRequire } from 'node:module'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [suite, base, proxy = '-', only] = process.argv.slice(2)
const through = proxy === '-' ? undefined : new URL(proxy)
const load = path => import(pathToFileURL(join(suite, path)))
const require = createRequire(join(suite, 'package.json'))
const newer = existsSync(join(suite, 'test-engine'))
const engine = newer ? 'test-engine/' : ''

// An agent of node's own http that asks a forward proxy.
class AbsoluteForm extends http.Agent {
  addRequest (request, options) {
    request.path = `http://${options.host}:${options.port}${request.path}`
    super.addRequest(request, { ...options, host: through.hostname, port: through.port })
  }
}

function fetcher () {
  if (newer) {
    if (!through) return
    const undici = require('undici')
    undici.Agent = class extends undici.ProxyAgent {
      constructor () { super({ uri: through.href, proxyTunnel: false }) }
    }
    const dispatcher = new undici.Agent()
    globalThis.fetch = (url, init) => undici.fetch(url, { dispatcher, ...init })
  } else {
    const nodeFetch = require('node-fetch')
    const agent = through && new AbsoluteForm({ keepAlive: true })
    return (url, init) => nodeFetch(url, { agent, ...init })
  }
}

const fetch = fetcher()
const { default: suites } = await load('tests/index.mjs')
const { runTests, getResults } = await load(engine + 'client/runner.mjs')
const { determineTestResult } = await load(engine + (newer ? 'lib/results.mjs' : 'lib/display.mjs'))

// One test is run with those that it depends on: without their results it would have none.
const named = new Map(suites.flatMap(suite => suite.tests).map(test => [test.id, test]))
const needed = (id, all = new Set()) => {
  if (all.has(id)) return all
  all.add(id)
  named.get(id)?.depends_on?.forEach(other => needed(other, all))
  return all
}
const wanted = only && needed(only)
const dump = test => test.id === only ? { ...test, dump: true } : test
const chosen = !only
  ? suites
  : suites.map(s => ({ ...s, tests: s.tests.filter(t => wanted.has(t.id)).map(dump) }))
console.log = (...what) => console.error(...what)
await (newer ? runTests(chosen, false, base) : runTests(chosen, fetch, false, base))

const outcomes = { '✅': 'pass', Y: 'pass', '⛔️': 'fail', '⚠️': 'fail', N: 'fail', '⚪️': 'dependency', '-': 'untested' }
const results = getResults()
const asked = test => !only || test.id === only
const rows = chosen.flatMap(suite => suite.tests.filter(asked).map(test => {
  const outcome = outcomes[determineTestResult(suites, test.id, results)[2]] ?? 'harness'
  const detail = Array.isArray(results[test.id]) ? results[test.id].join(': ') : ''
  return [test.kind ?? 'required', outcome, suite.id, test.id, detail.replace(/\s+/g, ' ')]
}))
const lines = rows.filter(([, outcome]) => outcome !== 'untested').map(row => row.join('\t') + '\n')
process.stdout.write(lines.join(''), () => process.exit(0))
