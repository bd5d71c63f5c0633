package wire

// DecodeEventStrictly is the decoder that the scan must agree with.
var DecodeEventStrictly = decodeEventStrictly
