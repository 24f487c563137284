// Serves S3 on a folder: prints the port.
const S3rver = require(process.argv[2])

const options = { address: '127.0.0.1', port: 0, directory: process.argv[3], silent: true }
new S3rver({ ...options, configureBuckets: [{ name: 'photos' }] })
  .run()
  .then((address) => console.log(address.port))
