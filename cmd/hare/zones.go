package main

// Zones of time are in the binary: images, containers and bare machines often have none.
import _ "time/tzdata"
