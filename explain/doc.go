// Package explain says why a job of a schedule starts and ends when it does,
// what its GPUs cost at the certificate's prices, and which change would let it
// end earlier.
package explain
