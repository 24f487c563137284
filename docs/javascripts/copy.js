// Adds a button to each example that copies it. Of a terminal's text it copies the commands alone,
// without prompts and output, so that they can be pasted into a shell.

const SECONDS_TO_READ = 2

function codeOf(example) {
  const code = example.querySelector('pre').cloneNode(true)
  if (!code.querySelector('.gp')) return code.textContent
  for (const part of code.querySelectorAll('.gp, .go')) part.remove()
  return code.textContent.split('\n').filter((line) => line.trim()).join('\n') + '\n'
}

function buttonFor(example) {
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'copy'
  button.textContent = 'Copy'
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(codeOf(example))
    button.textContent = 'Copied'
    setTimeout(() => { button.textContent = 'Copy' }, SECONDS_TO_READ * 1000)
  })
  return button
}

// Browsers have a clipboard only on HTTPS and on this machine.
if (navigator.clipboard) {
  for (const example of document.querySelectorAll('.codehilite:not(.doc-signature)')) {
    if (example.querySelector('pre')) example.append(buttonFor(example))
  }
}
