// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls many functions in the libraries of C++ and C, each some thousand times, the same number in each run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <iomanip>
#include <iostream>
#include <list>
#include <locale>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

static unsigned long sum;

static void text(int n)
{
	std::ostringstream out;
	out << std::setw(8) << n << ' ' << n * 1.5 << ' ' << std::hex << n << ' ' << std::boolalpha << (n % 2 == 0) << std::endl;
	std::istringstream in(out.str());
	int first = 0;
	double second = 0;
	in >> first >> second;
	std::string line = out.str() + std::to_string(n), other(line, 2, 5);
	line.append(other).insert(1, "ab").erase(2, 1).replace(0, 2, "xyz");
	line.resize(line.size() + 3, 'q');
	line.push_back('c');
	line.reserve(200);
	line.assign("short").swap(other);
	sum += line.find("z") + line.rfind('b') + line.compare(other) + first + other.find_first_of("12") + line.find_last_not_of("x");
	std::wstring wide(L"wide");
	wide.append(L"er").push_back(L'x');
	std::wostringstream wout;
	wout << wide << n;
	sum += wout.str().size();
	std::cout << n << '\n';
	std::getline(in, line);
}

static void thrown(int n)
{
	try {
		if (n % 2)
			throw std::out_of_range("no such place");
		std::vector<int>().at(3);
	} catch (const std::exception &error) {
		sum += std::strlen(error.what());
	}
}

static void kept(int n)
{
	std::map<int, std::string> map;
	std::set<std::string> set;
	std::list<int> list;
	for (int i = 0; i < 5; i++) {
		map[i * n % 17] = "value";
		set.insert(std::to_string(i));
		list.push_back(i - n);
	}
	list.sort();
	map.erase(map.begin());
	for (auto it = set.begin(); it != set.end(); ++it)
		sum += it->size();
	for (auto it = map.rbegin(); it != map.rend(); ++it)
		sum += it->first;
	auto shared = std::make_shared<std::string>("shared");
	sum += shared->size() + std::chrono::steady_clock::now().time_since_epoch().count() % 2;
	std::random_device::result_type seed = n;
	std::mt19937 numbers(seed);
	sum += numbers();
	std::locale here;
	sum += std::use_facet<std::ctype<char>>(here).is(std::ctype_base::alpha, 'x');
	sum += std::use_facet<std::collate<char>>(here).hash("ab", "ab" + 2);
}

static void files(int n)
{
	char name[] = "/tmp/streamsXXXXXX", buffer[64];
	std::filesystem::path path = std::filesystem::path("/tmp") / "a" / ("b" + std::to_string(n) + ".txt");
	sum += path.extension().string().size() + path.parent_path().string().size() + path.lexically_normal().string().size();
	if (n % 4)
		return;
	int fd = mkstemp(name);
	std::ofstream(name) << "line " << n << '\n';
	std::ifstream in(name);
	std::string line;
	std::getline(in, line);
	FILE *file = fopen(name, "r");
	if (file && fgets(buffer, sizeof(buffer), file))
		sum += fseek(file, 0, SEEK_SET) + fgetc(file) + ungetc('x', file) + ftell(file);
	fclose(file);
	close(fd);
	unlink(name);
}

static int by_value(const void *one, const void *other)
{
	return *(const int *)one - *(const int *)other;
}

static void c(int n)
{
	char buffer[200], copy[200];
	int values[20];
	time_t now = 1700000000 + n;
	struct tm parts;

	for (int i = 0; i < 20; i++)
		values[i] = (i * 7919 + n) % 101;
	qsort(values, 20, sizeof(int), by_value);
	sum += bsearch(values + 3, values, 20, sizeof(int), by_value) != nullptr;
	gmtime_r(&now, &parts);
	sum += strftime(buffer, sizeof(buffer), "%Y-%m-%d %H:%M", &parts) + mktime(&parts) + timegm(&parts);
	snprintf(buffer, sizeof(buffer), "%d %s %.3f %lx", n, "text", n / 3.0, (long)n);
	sscanf(buffer, "%d", &values[0]);
	strcpy(copy, buffer);
	char *rest = copy;
	for (char *word; (word = strsep(&rest, " "));)
		sum += strtol(word, nullptr, 10) + atoi(word);
	sum += strtod("1.25e3", nullptr) + strspn(buffer, "0123456789") + strcasecmp(buffer, copy);
	char *twice = strdup(buffer);
	twice = (char *)realloc(twice, 500);
	free(twice);
	free(calloc(3, 40));
	sum += getenv("HOME") != nullptr;
	sum += rand() + random() + getpid() + sysconf(_SC_PAGESIZE) + access("/none", R_OK);
	sum += wcslen(L"wide") + mbstowcs(nullptr, "abc", 0) + (long)memmem(buffer, 10, "x", 1);
	srand(n);
}

int main()
{
	FILE *none = freopen("/dev/null", "w", stdout);
	std::regex words("([a-z]+)([0-9]*)");
	std::smatch found;
	std::string line = "word12 and more";
	std::mutex lock;

	for (int n = 0; n < 1200; n++) {
		text(n);
		kept(n);
		c(n);
		files(n);
		if (n % 2)
			thrown(n / 2);
		std::lock_guard<std::mutex> held(lock);
		sum += std::regex_search(line, found, words);
	}
	for (int n = 0; n < 50; n++)
		sum += std::async(std::launch::async, [n] { return n; }).get();
	return none == nullptr || sum == 1;
}
