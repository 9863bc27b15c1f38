package main

import "fmt"

//go:noinline
func innerLoop(n int, p *[64]int) int {
	s := 0
	for i := 0; i < n; i++ {
		s += p[i&63] * i
	}
	return s
}

//go:noinline
func outerLoop(p *[64]int) int {
	s := 0
	for i := 0; i < 12000; i++ {
		s += innerLoop(100000, p)
	}
	return s
}

func main() {
	var p [64]int
	for i := range p {
		p[i] = i
	}
	fmt.Println(outerLoop(&p))
}
